"""Tell an agent to trust a folder, as its own dialog does."""

from __future__ import annotations

import json
from pathlib import Path

from support.user import User


def trust_folder(user: User, agent: str, folder: Path) -> None:
    if agent == "claude":
        settings = json.loads(user.file("claude").read_text()) if user.file("claude").exists() else {}
        projects = settings.get("projects", {})
        project = {**projects.get(str(folder), {}), "hasTrustDialogAccepted": True}
        user.write("claude", json.dumps({**settings, "projects": {**projects, str(folder): project}}))
    elif agent == "codex":
        text = user.file("codex").read_text() if user.file("codex").exists() else ""
        user.write("codex", f'{text}\n[projects."{folder}"]\ntrust_level = "trusted"\n')
    else:
        path = user.home / ".gemini" / "trustedFolders.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({str(folder): "TRUST_FOLDER"}))
