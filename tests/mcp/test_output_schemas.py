"""Every result of every tool, success or failure, matches the tool's `outputSchema`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from counsel.engine.engine import Engine, open_engine
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.session import Session, listing
from fake import FakeAPI
from support.provider_keys import keys

SCHEMAS = {tool["name"]: tool["outputSchema"] for tool in listing()}
NAMED = {
    "chat": "content continuation.id continuation.status continuation.messageCount metadata.model metadata.provider "
    "metadata.usage.total_tokens metadata.cost_usd metadata.response_time_ms job_id async_execution error code hint",
    "consensus": "status models_consulted refined_responses phases.initial phases.refined phases.failed content "
    "metadata.usage.input_tokens metadata.cost_usd continuation.id error code",
    "check_status": "content.status content.result content.error content.jobs content.history content.progress error",
    "cancel_job": "content.status content.message content.job_id error code",
    "askModel": "content continuation.id metadata.model metadata.usage.output_tokens error code",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_names_what_a_result_has(name: str) -> None:
    for path in NAMED[name].split():
        schema = SCHEMAS[name]
        for part in path.split("."):
            schema = schema["properties"][part]


class Caller:
    """A client that validates every result."""

    def __init__(self, engine: Engine, env: dict[str, str], cwd: Path) -> None:
        self.session = Session(engine, ClientIdentity(env=env, cwd=cwd))
        self.number = 0

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        self.number += 1
        params = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params}
        response = await self.session.respond(request, lambda _: None)
        assert response is not None
        result = response["result"]
        jsonschema.validate(result["structuredContent"], SCHEMAS[tool])
        return result


@pytest.fixture
async def call(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Caller]:
    home = tmp_path / "home"
    engine = await open_engine(home)
    env = {"COUNSEL_HOME": str(home), "COUNSEL_MAX_ATTEMPTS": "1", **keys(fake_api)}
    yield Caller(engine, env, tmp_path)
    await engine.close()


async def test_every_result_fits_its_schema(call: Caller, fake_api: FakeAPI) -> None:
    first = await call("chat", prompt="hello", model="gpt-5")
    name = first["structuredContent"]["continuation"]["id"]
    models = ["gpt-5", "sonnet"]
    await call("chat", prompt="again", continuation_id=name, export=True)
    await call("askModel", model="gpt-5", prompt="hi", sessionTag="t")
    await call("consensus", prompt="which?", models=models)
    await call("consensus", prompt="which?", models=[*models, "nonsense-9"])
    await call("check_status", continuation_id=name, full_history=True)
    await call("check_status")
    fake_api.script(gate="g", gate_after=1, contains="slowly", times=None)
    for tool, more in (("chat", {"model": "sonnet"}), ("consensus", {"models": models})):
        accepted = await call(tool, prompt="slowly", **more, **{"async": True})
        job = accepted["structuredContent"]["job_id"]
        await fake_api.wait_for(contains="slowly", state="answering")
        await call("check_status", continuation_id=job)
        await call("cancel_job", continuation_id=job)
        await call("cancel_job", continuation_id=job)
        await call("check_status", continuation_id=job)
    fake_api.open_gate("g")


async def test_every_failure_fits_its_schema(call: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(status=500, times=None)
    failures = [
        await call("chat", prompt="hello", model="gpt-5"),
        await call("chat", prompt="hello", model="nonsense-9"),
        await call("chat", prompt=""),
        await call("chat", prompt="p", files=["missing.txt"]),
        await call("askModel", model="gpt-5", prompt="hi"),
        await call("consensus", prompt="which?", models=["gpt-5"]),
        await call("consensus", prompt="which?", models=["gpt-5", "sonnet"]),
        await call("consensus", prompt="which?", models=[]),
        await call("check_status", continuation_id="nobody"),
        await call("cancel_job", continuation_id="nobody"),
    ]
    assert all(result["isError"] for result in failures)
    job = failures[0]["structuredContent"]["job_id"]
    await call("check_status", continuation_id=job)
