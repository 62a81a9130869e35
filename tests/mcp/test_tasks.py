"""MCP's tasks extension, revision 2026-07-28: a client that declares it gets tasks; others see nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio
import pytest
from mcp import Client as SdkClient
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, Request, RequestParams, Result

from counsel.front import protocol
from counsel.mcp import tasks
from support.sdk_transport import INTERFACES, transport
from support.session_client import ENVELOPE, SessionClient

DECLARED = {**ENVELOPE, protocol.META_CAPABILITIES: {"extensions": {protocol.TASKS: {}}}}
FIELDS = {"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}


@pytest.fixture
def client(tmp_path: Path) -> SessionClient:
    return SessionClient(tmp_path)


async def ask(client: SessionClient, method: str, **params: Any) -> Any:
    return await client.ask(method, {**params, "_meta": DECLARED})


async def begin(client: SessionClient, prompt: str = "hang so far") -> str:
    task = await client.call("chat", {"prompt": prompt, "async": True}, **DECLARED)
    assert task["resultType"] == "task"
    return str(task["taskId"])


async def test_the_extension_is_declared_where_it_exists_only(client: SessionClient) -> None:
    result = await client.ask("server/discover", {"_meta": ENVELOPE})
    assert result["result"]["capabilities"]["extensions"] == {protocol.TASKS: {}}
    older = SessionClient(client.session.identity.cwd)
    assert "extensions" not in (await older.initialize())["result"]["capabilities"]
    assert (await older.ask("tasks/get", {"taskId": "x"}))["error"]["code"] == protocol.METHOD_NOT_FOUND


async def test_a_background_call_is_a_task_from_its_first_answer_to_its_result(client: SessionClient) -> None:
    task = await client.call("chat", {"prompt": "hang so far", "async": True}, **DECLARED)
    assert task["resultType"] == "task"
    assert set(task) == FIELDS | {"resultType", "_meta"}
    name = task["taskId"]
    working = (await ask(client, "tasks/get", taskId=name))["result"]
    assert (working["status"], working["resultType"]) == ("working", "complete")
    assert "result" not in working
    client.engine.jobs[name].end(client.engine.result(client.engine.jobs[name], "at last"))
    completed = (await ask(client, "tasks/get", taskId=name))["result"]
    assert completed["status"] == "completed"
    assert completed["result"]["structuredContent"]["content"] == "at last"
    assert completed["result"]["content"][0]["text"].startswith("at last")


async def test_a_quick_call_is_answered_at_once_and_a_slow_one_becomes_a_task(
    client: SessionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = await client.call("chat", {"prompt": "echo hi"}, **DECLARED)
    assert quick["resultType"] == "complete"
    monkeypatch.setattr(tasks, "AFTER", 0.05)
    slow = await client.call("chat", {"prompt": "hang"}, **DECLARED)
    assert slow["resultType"] == "task"
    assert client.engine.jobs[slow["taskId"]].background


async def test_a_tools_failure_is_a_completed_task_that_says_so(client: SessionClient) -> None:
    task = (await ask(client, "tasks/get", taskId=await begin(client, "fail")))["result"]
    assert (task["status"], task["result"]["isError"]) == ("completed", True)
    assert task["result"]["structuredContent"]["code"] == "NOT_FOUND"


async def test_cancelling_stops_the_job_and_is_acknowledged_with_nothing(client: SessionClient) -> None:
    name = await begin(client)
    assert set((await ask(client, "tasks/cancel", taskId=name))["result"]) == {"resultType", "_meta"}
    assert client.engine.jobs[name].status == "cancelled"
    result = (await ask(client, "tasks/get", taskId=name))["result"]
    assert result["status"] == "cancelled"
    assert "result" not in result
    assert "error" not in (await ask(client, "tasks/cancel", taskId=name))


async def test_an_update_without_a_request_is_acknowledged(client: SessionClient) -> None:
    name = await begin(client)
    answer = await ask(client, "tasks/update", taskId=name, inputResponses={"x": {}})
    assert set(answer["result"]) == {"resultType", "_meta"}


@pytest.mark.parametrize("method", sorted(protocol.TASK_METHODS))
@pytest.mark.parametrize("name", ["nobody", "", None, 7, "x" * 100_000])
async def test_an_unknown_task_is_an_invalid_parameter(client: SessionClient, method: str, name: Any) -> None:
    error = (await ask(client, method, taskId=name))["error"]
    assert error["code"] == protocol.INVALID_PARAMS
    assert len(str(error)) < 500


@pytest.mark.parametrize("method", [*sorted(protocol.TASK_METHODS), protocol.LISTEN])
async def test_a_client_that_does_not_declare_it_learns_what_is_missing(
    client: SessionClient, method: str
) -> None:
    params = {"taskId": "x", "notifications": {"taskIds": ["x"]}, "_meta": ENVELOPE}
    error = (await client.ask(method, params))["error"]
    assert error["code"] == protocol.MISSING_CAPABILITY
    assert error["data"] == {"requiredCapabilities": {"extensions": {protocol.TASKS: {}}}}
    reply = await client.call("chat", {"prompt": "hang", "async": True}, **ENVELOPE)
    assert (reply["resultType"], reply["structuredContent"]["async_execution"]) == ("complete", True)


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_the_older_tasks_are_gone(client: SessionClient, method: str) -> None:
    assert (await ask(client, method, taskId="x"))["error"]["code"] == protocol.METHOD_NOT_FOUND


async def test_a_subscription_reports_changes_until_its_tasks_have_ended(client: SessionClient) -> None:
    name = await begin(client)
    listening = client.request(
        protocol.LISTEN, {"notifications": {"taskIds": [name, "nobody"]}, "_meta": DECLARED}
    )
    acknowledgement = await client.messages.get()
    assert acknowledgement["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledgement["params"]["notifications"] == {"taskIds": [name]}
    assert acknowledgement["params"]["_meta"] == {protocol.META_SUBSCRIPTION: listening}
    assert (await client.messages.get())["params"]["status"] == "working"
    client.engine.jobs[name].end({"content": "done"})
    last = await client.messages.get()
    assert (last["method"], last["params"]["status"]) == ("notifications/tasks", "completed")
    assert last["params"]["result"]["structuredContent"] == {"content": "done"}
    response = await client.messages.get()
    assert (response["id"], response["result"]["resultType"]) == (listening, "complete")


# ── the SDK's own client ──


class _Created(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    poll_interval_ms: int


class _Got(Result):
    task_id: str
    status: str
    result: dict[str, Any] | None = None


class _Params(RequestParams):
    task_id: str


class _Get(Request[_Params, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _Params


class _Tasks(ClientExtension):
    identifier = protocol.TASKS

    def __init__(self, now: Path) -> None:
        self.now = now
        self.seen: list[Any] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=_Created, resolve=self._resolve)]

    async def _resolve(self, task: _Created, context: ClaimContext) -> CallToolResult:
        while True:
            state = await context.session.send_request(_Get(params=_Params(task_id=task.task_id)), _Got)
            self.seen.append(state.status)
            if state.result is not None:
                return CallToolResult.model_validate(state.result)
            self.now.touch()
            await anyio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("interface", INTERFACES)
async def test_the_sdks_client_gets_a_tasks_result(tmp_path: Path, interface: str) -> None:
    extension = _Tasks(tmp_path / "now")
    async with (
        transport(interface, tmp_path) as streams,
        SdkClient(streams, mode="2026-07-28", extensions=[extension]) as client,
    ):
        result = await client.call_tool("chat", {"prompt": f"slowly {tmp_path / 'now'}", "async": True})
    assert result.structured_content["content"] == "slowly done"
    assert extension.seen[0] == "working"
    assert extension.seen[-1] == "completed"
