"""Files, images and export as a person uses them: through the command, up to what a vendor receives."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from fake import FakeProcess

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("one\ntwo\nthree\n")
    (folder / ".env").write_text("HUSH_IN_ENV=1\n")
    (tmp_path / "outside.txt").write_text("HUSH_OUTSIDE\n")
    (folder / "link.txt").symlink_to("../outside.txt")
    Image.new("RGB", (3000, 20), "red").save(folder / "wide.png")
    return folder


@pytest.fixture
def ask(project: Path, fake_process: FakeProcess) -> Callable[..., subprocess.CompletedProcess[str]]:
    env = {
        **{name: value for name, value in os.environ.items() if name in {"PATH", "LANG"}},
        "HOME": str(project.parent / "home"),
        "COUNSEL_HOME": str(project.parent / "counsel"),
        "OPENAI_API_KEY": "sk-" + "k" * 40,
        "OPENAI_BASE_URL": fake_process.v1,
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "counsel", "ask", "--standalone", "-m", "gpt-5", *arguments]
        return subprocess.run(
            command,
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    return run


def test_a_range_of_lines_arrives(
    ask: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    result = ask("Why?", "-f", "a.py{2:3}", "--json")
    assert result.returncode == 0, result.stderr
    (request,) = fake_process.calls
    assert request["text"].startswith('Why?\n\n<files>\n<file path="a.py" size="14 bytes"')
    assert 'lines="2-3 of 3">\n2| two\n3| three\n</file>' in request["text"]


def test_an_image_is_sent_in_the_vendors_format(
    ask: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    result = ask("What is it?", "-i", "wide.png", "--json")
    assert result.returncode == 0, result.stderr
    (request,) = fake_process.calls
    parts = request["body"]["input"][-1]["content"]
    (url,) = (part["image_url"] for part in parts if part["type"] == "input_image")
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert image.size[0] == 2048


def test_if_one_file_is_bad_nothing_is_sent(
    ask: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    result = ask(
        "Why?", "-f", "a.py", "-f", ".env", "-f", "link.txt", "-f", "/etc/shadow", "-f", "none", "--json"
    )
    document = json.loads(result.stdout)
    assert result.returncode == 1
    assert document["code"] == "FILE_NOT_ALLOWED"
    assert document["files"] == [".env", "link.txt", "/etc/shadow", "none"]
    assert "HUSH" not in result.stdout + result.stderr
    assert fake_process.calls == []


def test_an_export_lands_in_the_callers_folder(
    ask: Callable[..., subprocess.CompletedProcess[str]], project: Path
) -> None:
    result = ask("Why?", "--export", "notes", "--json")
    assert result.returncode == 0, result.stderr
    (folder,) = (project / "notes").iterdir()
    assert folder.name == json.loads(result.stdout)["continuation"]["id"]
    assert (folder / "1_request.txt").read_text() == "Why?"
    assert (folder / "1_response.txt").read_text() == json.loads(result.stdout)["content"]
    assert json.loads((folder / "metadata.json").read_text())["continuation_id"] == folder.name


def test_no_log_holds_the_prompt_the_answer_or_the_key(
    ask: Callable[..., subprocess.CompletedProcess[str]], project: Path
) -> None:
    result = ask("A very private question", "-f", "a.py")
    assert result.returncode == 0, result.stderr
    for path in (project.parent / "counsel" / "logs").glob("*"):
        text = path.read_text()
        assert "private question" not in text
        assert "kkkkkkkk" not in text
