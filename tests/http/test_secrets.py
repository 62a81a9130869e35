"""No answer of `/api` contains a secret, except the one that is revealed on request."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counsel.http.api import routes
from fake import FakeAPI
from support.api_client import TOKEN, Api, in_process

ENV = "qQ7xplantedEnvSecret81"
HEADER = "zZ3plantedHeaderSecret55"
ARGUMENT = "kK9plantedArgumentSecret22"
URL = "uU4plantedUrlSecret66"
EXTRA = "eE6plantedExtraSecret10"
BROKEN = "bB2plantedBrokenSecret94"
PROVIDER = "sk-pP5plantedProviderKey0000000000"
TOML = "tT8plantedTomlSecret31"
OWN = "sk-test-openai-0000000000000000"  # of `in_process`
SECRETS = (ENV, HEADER, ARGUMENT, URL, EXTRA, BROKEN, PROVIDER, TOML, OWN, TOKEN)


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    plant_secrets(tmp_path)
    async with in_process(tmp_path, fake_api) as client:
        yield client


def plant_secrets(home: Path) -> None:
    stdio = {
        "command": "npx",
        "args": ["--api-key", ARGUMENT, "server"],
        "env": {"SERVICE_TOKEN": ENV, "MODE": "fast"},
        "oauth": {"client.secret": EXTRA},
    }
    http = {
        "type": "http",
        "url": f"https://example.test/mcp?token={URL}",
        "headers": {"Authorization": f"Bearer {HEADER}"},
    }
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"files": stdio, "web": http}}))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        f"[mcp_servers.files]\ncommand = \"npx\"\n[mcp_servers.files.env]\nSERVICE_TOKEN = '{TOML}'\n"
    )
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text(
        f'{{"mcpServers": {{"x": {{"env": {{"API_KEY": "{BROKEN}" "oops"'
    )
    counsel = home / "counsel"
    counsel.mkdir(mode=0o700)
    (counsel / "config.toml").write_text(
        f'[providers.mine]\nwire = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "{PROVIDER}"\n'
    )


async def read(api: Api, method: str, path: str, body: Any = None) -> str:
    async with api.session.request(method, path, json=body) as answer:
        text = (await answer.read()).decode(errors="replace")
        assert answer.status < 500, (path, text[:300])
        for secret in SECRETS:
            assert secret not in text, (method, path, secret)
        return text


async def test_no_answer_to_a_get_contains_a_secret(api: Api) -> None:
    _, reply = await api.post("/api/jobs", {"prompt": "hello", "model": "gpt-5"})
    change = {"agents": ["claude"], "server": {"env": {"SERVICE_TOKEN": ENV, "OTHER_KEY": EXTRA}}}
    await read(api, "PATCH", "/api/servers/files", change)
    names = {
        "/api/jobs": reply["job_id"],
        "/api/conversations": reply["continuation"]["id"],
        "/api/servers": "files",
    }
    texts = []
    for row in routes.ROUTES:
        if row.method == "GET" and row.path != "/api/events":
            name = next((value for start, value in names.items() if row.path.startswith(start)), "name")
            path = re.sub(r"\{.*?\}", name, row.path)
            texts.append(await read(api, "GET", path))
    listing = await read(api, "GET", "/api/servers")
    assert "SERVICE_TOKEN" in listing
    assert "Authorization" in listing
    problem = next(row for row in json.loads(listing)["problems"] if row["agent"] == "cursor")
    assert (problem["line"], problem["column"] > 1, problem["file"].endswith("mcp.json")) == (1, True, True)
    assert len(texts) > 15


async def test_a_dry_run_shows_the_difference_of_each_file_without_secrets(api: Api, tmp_path: Path) -> None:
    before = (tmp_path / ".claude.json").read_text()
    body = {
        "name": "more",
        "server": {"command": "npx", "env": {"SERVICE_TOKEN": ENV}},
        "agents": ["claude", "codex"],
        "dry_run": True,
    }
    document = json.loads(await read(api, "POST", "/api/servers", body))
    assert {Path(diff["path"]).name for diff in document["diffs"]} == {".claude.json", "config.toml"}
    assert all('"more"' in diff["diff"] or ".more" in diff["diff"] for diff in document["diffs"])
    assert (tmp_path / ".claude.json").read_text() == before
    snippet = json.dumps({"mcpServers": {"p": {"url": f"https://e.test/?token={URL}"}}})
    await read(api, "POST", "/api/servers", {"paste": snippet, "agents": ["claude"], "dry_run": True})


async def test_one_secret_is_revealed_at_a_time(api: Api) -> None:
    for name, field, value in [
        ("files", "env.SERVICE_TOKEN", ENV),
        ("files", "args.1", ARGUMENT),
        ("files", "extras.oauth.client.secret", EXTRA),
        ("web", "headers.Authorization", f"Bearer {HEADER}"),
        ("web", "url", f"https://example.test/mcp?token={URL}"),
    ]:
        body = {"name": name, "agent": "claude", "scope": "user", "field": field}
        assert await api.post("/api/servers:reveal", body) == (200, {"value": value}), field
    body = {"name": "files", "agent": "codex", "field": "env.SERVICE_TOKEN"}
    assert await api.post("/api/servers:reveal", body) == (200, {"value": TOML})


async def test_no_other_field_is_revealed(api: Api) -> None:
    base = {"name": "files", "agent": "claude"}
    for field in (
        "env",
        "env.NOTHING",
        "args.9",
        "args.-1",
        "args.x",
        "__class__",
        "path",
        "extras",
        "env.",
        ".",
    ):
        status, failure = await api.post("/api/servers:reveal", {**base, "field": field})
        assert (status, failure["code"]) == (404, "NOT_FOUND"), field
    for body in (
        {},
        base,
        {"agent": "claude", "field": "url"},
        {**base, "field": 7},
        {**base, "agent": "nobody"},
    ):
        assert (await api.post("/api/servers:reveal", body))[0] == 400, body
    missing = {"name": "nothing", "agent": "claude", "field": "url"}
    assert (await api.post("/api/servers:reveal", missing))[0] == 404
