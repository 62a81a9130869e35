"""Two people on one server: what is Ann's does not exist for Bob, through any route, tool, API or id.

`ROUTES`, `TOOLS` and `V1` have a row for everything that there is: something new fails here until it has one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import pytest
from PIL import Image

from counsel.errors import CounselError
from counsel.front import protocol
from counsel.http.api import routes
from counsel.http.v1 import endpoint as v1
from counsel.mcp.tools import TOOLS as MCP_TOOLS
from counsel.models import team as team_models
from counsel.models.transport import Transport
from counsel.team_login import TeamLogin
from fake import FakeAPI
from support.api_client import Api
from support.session_client import ENVELOPE
from support.team_server import TeamServer

SECRET = "the word is xylophone"
INFO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Ids:
    """Ids of things that Ann has, or that nobody has: the tests send the same requests with both."""

    def __init__(self, **names: str) -> None:
        self.names = names

    def __getattr__(self, name: str) -> str:
        return str(self.names[name])

    def hidden(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(value.partition("_")[2] or value, f"<{name}>")
        return text


def image() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(data, "PNG")
    return data.getvalue()


def unknown(ids: Ids) -> Ids:
    """Ids of the same form."""

    def other(value: str) -> str:
        head, mark, _ = value.partition("_")
        return (
            f"{head}_{uuid4()}"
            if mark and "-" in value
            else uuid4().hex * 2
            if len(value) == 64
            else uuid4().hex
        )

    return Ids(**{name: other(value) for name, value in ids.names.items()})


Ask = Callable[[Ids], tuple[str, str, Any]]  # method, path, body


def get(path: str) -> Ask:
    return lambda ids: ("GET", path.format(**ids.names), None)


def post(path: str, **body: str) -> Ask:
    return lambda ids: (
        "POST",
        path.format(**ids.names),
        {name: value.format(**ids.names) for name, value in body.items()},
    )


def delete(path: str) -> Ask:
    return lambda ids: ("DELETE", path.format(**ids.names), None)


REFUSED = "refused"  # the server's own machine: for nobody
ADMIN = "admin"
SAME = "same"  # nothing of anyone's is in it
ROUTES: dict[tuple[str, str], list[Ask] | str] = {
    ("POST", "/api/jobs"): [
        post("/api/jobs", prompt="go on", model="gpt-5", continuation_id="{conversation}"),
        post("/api/jobs", prompt="read", model="gpt-5", continuation_id="{job}"),
    ],
    ("GET", "/api/jobs"): [get("/api/jobs"), get("/api/jobs?q=xylophone"), get("/api/jobs?conversation={conversation}")],
    ("GET", "/api/jobs/{id}"): [
        get("/api/jobs/{job}"),
        get("/api/jobs/{job}?history=1&question=1"),
        get("/api/jobs/{conversation}"),
        get("/api/jobs/{running}"),
    ],
    ("GET", "/api/jobs/{id}/events"): [get("/api/jobs/{job}/events"), get("/api/jobs/{running}/events")],
    ("GET", "/api/jobs/{id}/timeline"): [get("/api/jobs/{job}/timeline"), get("/api/jobs/{running}/timeline")],
    ("POST", "/api/jobs/{id}/cancel"): [
        post("/api/jobs/{running}/cancel"),
        post("/api/jobs/{running_conversation}/cancel"),
        post("/api/jobs/{running}/cancel", member="gpt-5"),
    ],
    ("DELETE", "/api/jobs/{id}"): [delete("/api/jobs/{job}")],
    ("GET", "/api/events"): [get("/api/events?job={job}"), get("/api/events?job={running}")],
    ("GET", "/api/conversations"): [get("/api/conversations"), get("/api/conversations?q=xylophone"),
                                    get("/api/conversations?shared=1")],
    ("GET", "/api/conversations/{id}"): [get("/api/conversations/{conversation}")],
    ("GET", "/api/conversations/{id}/export"): [get("/api/conversations/{conversation}/export")],
    ("POST", "/api/conversations/{id}/share"): [post("/api/conversations/{conversation}/share")],
    ("POST", "/api/conversations/{id}/unshare"): [post("/api/conversations/{conversation}/unshare")],
    ("DELETE", "/api/conversations/{id}"): [delete("/api/conversations/{conversation}")],
    ("POST", "/api/files"): SAME,
    ("POST", "/api/images"): REFUSED,
    ("GET", "/api/images/{id}"): [get("/api/images/{image}")],
    ("GET", "/api/models"): SAME,
    ("GET", "/api/usage"): [get("/api/usage")],
    ("GET", "/api/usage/series"): [get("/api/usage/series?seconds=3600")],
    ("POST", "/api/session"): SAME,
    ("GET", "/api/session"): SAME,
    ("DELETE", "/api/session"): SAME,
    ("GET", "/api/openapi.json"): SAME,
    ("GET", "/api/team/me"): SAME,
    ("POST", "/api/team/me/tokens"): SAME,
    ("DELETE", "/api/team/me/tokens/{token}"): [delete("/api/team/me/tokens/t_unknown")],
    ("GET", "/api/team/limits"): [get("/api/team/limits")],
    ("GET", "/api/team/keys"): [get("/api/team/keys")],
    ("PUT", "/api/team/keys/{provider}"): SAME,
    ("DELETE", "/api/team/keys/{provider}"): [delete("/api/team/keys/openai")],
    **{
        (row.method, row.path): ADMIN if row.team == "admin" else REFUSED
        for row in routes.ROUTES
        if row.team != "person"
    },
}  # fmt: skip
MACHINE = {
    "/api/agents", "/api/aliases/{name:path}", "/api/doctor", "/api/embedded-model", "/api/images", "/api/keys",
    "/api/keys/{provider}", "/api/panels/{name:path}", "/api/settings", "/api/skills", "/api/servers",
}  # fmt: skip


async def answer_of(api: Api, ask: Ask, ids: Ids) -> tuple[int, str]:
    method, path, body = ask(ids)
    async with api.session.request(method, path, json=body) as answer:
        return answer.status, ids.hidden((await answer.read()).decode("utf-8", "replace"))


@pytest.fixture
async def ann(team: TeamServer, fake_api: FakeAPI) -> Ids:
    api = await team.person("Ann")
    async with api.session.post("/api/files", params={"name": "dot.png"}, data=image()) as answer:
        upload = (await answer.json())["path"]
    question = {"prompt": SECRET, "model": "gpt-5", "images": [upload]}
    status, reply = await api.post("/api/jobs", question, Idempotency_Key="once")
    assert status == 200, reply
    conversation = reply["continuation"]["id"]
    fake_api.script(gate="ann", gate_after=1)
    _, running = await api.post(
        "/api/jobs", {"prompt": SECRET, "model": "gpt-5", "mode": "background"}, Idempotency_Key="key-of-ann"
    )
    await fake_api.wait_for(state="answering", count=1)
    _, job = await api.get("/api/jobs", conversation=conversation)
    _, document = await api.get(f"/api/conversations/{conversation}")
    body = {"model": "gpt-5", "input": SECRET, "store": True}
    _, response = await api.post("/v1/responses", body)
    team.ann = api  # type: ignore[attr-defined]
    return Ids(
        job=job["jobs"][0]["job_id"],
        conversation=conversation,
        running=running["job_id"],
        running_conversation=running["id"],
        image=document["history"][0]["image_ids"][0],
        upload=upload,
        response=response["id"],
        key="key-of-ann",
    )


def test_every_route_has_a_row() -> None:
    assert {(row.method, row.path) for row in routes.ROUTES} == ROUTES.keys()
    machine_paths = {path for (_, path), kind in ROUTES.items() if kind == REFUSED}
    assert {path for path in machine_paths if not path.startswith(("/api/servers", "/api/skills"))} == {
        path for path in MACHINE if not path.startswith(("/api/servers", "/api/skills"))
    }


async def test_no_route_knows_of_anothers_work(team: TeamServer, ann: Ids) -> None:
    """Bob gets for Ann's ids, byte for byte, what he gets for ids that do not exist; his lists are like a
    newcomer's."""
    bob = await team.person("Bob")
    absent = unknown(ann)
    count = 0
    for row, asks in ROUTES.items():
        for ask in asks if isinstance(asks, list) else ():
            for_ann, for_nobody = await answer_of(bob, ask, ann), await answer_of(bob, ask, absent)
            assert _timeless(for_ann) == _timeless(for_nobody), row
            assert "xylophone" not in for_ann[1].replace("q=xylophone", ""), row
            count += 1
    assert count > 25
    assert (await team.ann.get(f"/api/jobs/{ann.job}"))[0] == 200  # type: ignore[attr-defined]
    assert (await team.ann.get(f"/api/jobs/{ann.running}"))[1]["status"] == "processing"  # type: ignore[attr-defined]
    assert len((await team.ann.get("/api/jobs"))[1]["jobs"]) == 3  # type: ignore[attr-defined]


async def test_the_list_that_is_followed_is_ones_own(team: TeamServer, ann: Ids) -> None:
    bob = await team.person("Bob")
    for api, count in ((bob, 0), (team.ann, 3)):  # type: ignore[attr-defined]
        async with api.session.get("/api/events", params={"jobs": "1"}) as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    jobs = json.loads(line[6:])["jobs"]
                    break
        assert len(jobs) == count
        assert (ann.running in {job["job_id"] for job in jobs}) == bool(count)


def _timeless(answer: tuple[int, str]) -> tuple[int, str]:
    """The answer without the times of a report that ends now."""
    status, text = answer
    try:
        document = json.loads(text)
    except ValueError:
        return answer
    for name in ("since", "until", "step"):
        if isinstance(document, dict):
            document.pop(name, None)
    return status, json.dumps(document)


async def test_the_servers_own_machine_and_people_are_not_for_members(team: TeamServer) -> None:
    bob = await team.person("Bob")
    for (method, path), kind in ROUTES.items():
        if kind in (REFUSED, ADMIN):
            async with bob.session.request(method, path.replace("{name:path}", "x"), json={}) as answer:
                assert answer.status == 403, path
                assert (await answer.json())["code"] == "NOT_PERMITTED"
    async with bob.session.get("/metrics") as answer:
        assert answer.status == 403
    for body, status in (
        ({"project": "/"}, 403),
        ({"files": ["/etc/hostname"]}, 403),
        ({"files": ["hostname"]}, 403),
        ({"images": ["/etc/hostname"]}, 403),
        ({"export": True}, 403),
        ({"tools": ["github"]}, 403),
        ({"model": "codex"}, 403),
        ({"model": "gpt-5, codex"}, 403),
    ):
        question = {"prompt": "x", "model": "gpt-5", **body}
        actual, document = await bob.post("/api/jobs", question)
        assert (actual, body) == (status, body), document
        assert "ALLOWED_DIRS" not in str(document), "that advice is not for people of a team"


# ── MCP ──────────────────────────────────────────────────────────────────────────────────────────────

TOOLS: dict[str, list[dict[str, str]]] = {
    "chat": [{"prompt": "go on", "model": "gpt-5", "continuation_id": "{conversation}"}],
    "consensus": [{"prompt": "go on", "models": "gpt-5", "continuation_id": "{conversation}"}],
    "askModel": [{"prompt": "go on", "model": "gpt-5", "continuation_id": "{conversation}"}],
    "check_status": [{"job_id": "{job}"}, {"job_id": "{running}"}, {"job_id": "{conversation}"}, {}],
    "cancel_job": [{"job_id": "{running}"}],
}


async def test_no_mcp_tool_or_resource_knows_of_anothers_work(team: TeamServer, ann: Ids) -> None:
    assert TOOLS.keys() == MCP_TOOLS.keys()
    bob, absent = await team.person("Bob"), unknown(ann)
    await bob.mcp("initialize", INFO)
    for name, calls in TOOLS.items():
        for arguments in calls:
            texts = []
            for ids in (ann, absent):
                call: dict[str, Any] = {key: value.format(**ids.names) for key, value in arguments.items()}
                if name == "consensus":
                    call["models"] = [call["models"]]
                result = await bob.mcp("tools/call", {"name": name, "arguments": call})
                texts.append(ids.hidden(json.dumps(result)))
            assert texts[0] == texts[1], name
            assert "xylophone" not in texts[0]
    assert await bob.mcp("resources/list", {}) == {"resources": []}


ENGINE_METHODS: dict[str, dict[str, Any]] = {
    "tasks/get": {"taskId": "{running}"},
    "tasks/update": {"taskId": "{running}"},
    "tasks/cancel": {"taskId": "{running}"},
    "resources/list": {},
    "resources/read": {"uri": "counsel://jobs/{job}/text"},
    protocol.LISTEN: {"notifications": {"taskIds": ["{running}", "{job}"]}},
}


async def test_no_mcp_method_knows_of_anothers_tasks_and_texts(team: TeamServer, ann: Ids) -> None:
    """Of the revision without sessions, in which a job's id is a task's."""
    methods = protocol.TASK_METHODS | protocol.ENGINE_METHODS | {protocol.LISTEN}
    assert ENGINE_METHODS.keys() == methods - {"tools/call"}
    bob, theirs = await team.person("Bob"), team.ann  # type: ignore[attr-defined]
    for method, params in ENGINE_METHODS.items():
        for_ann, for_nobody = (
            await stateless(bob, method, params, ann),
            await stateless(bob, method, params, unknown(ann)),
        )
        assert for_ann == for_nobody, method
        assert "xylophone" not in for_ann[1]
    assert (await stateless(theirs, "resources/read", ENGINE_METHODS["resources/read"], ann))[0] == 200
    status, task = await stateless(theirs, "tasks/get", ENGINE_METHODS["tasks/get"], ann)
    assert (status, json.loads(task)["result"]["status"]) == (200, "working")  # Bob has not cancelled it


async def stateless(api: Api, method: str, params: dict[str, Any], ids: Ids) -> tuple[int, str]:
    capabilities: Any = {"extensions": {protocol.TASKS: {}}}
    meta = {**ENVELOPE, protocol.META_CAPABILITIES: capabilities}
    arguments = json.loads(re.sub(r"\{(\w+)\}", lambda name: ids.names[name[1]], json.dumps(params)))
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": arguments.get("taskId") or arguments.get("uri") or "",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**arguments, "_meta": meta}}
    async with api.session.post("/mcp", json=message, headers=headers) as answer:
        return answer.status, ids.hidden(await answer.text())


async def test_an_mcp_session_belongs_to_the_person_who_opened_it(team: TeamServer, ann: Ids) -> None:
    bob = await team.person("Bob")
    theirs: Api = team.ann  # type: ignore[attr-defined]
    await theirs.mcp("initialize", INFO)
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    answers = []
    for session in (theirs.mcp_session["Mcp-Session-Id"], uuid4().hex):
        async with bob.session.post(
            "/mcp", json=message, headers={**accept, "Mcp-Session-Id": session}
        ) as answer:
            answers.append((answer.status, await answer.read()))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    assert "tools" in await theirs.mcp("tools/list", {})


# ── /v1 ──────────────────────────────────────────────────────────────────────────────────────────────

V1: dict[str, list[Ask]] = {
    r"/v1/chat/completions": [],  # stateless but for the header, below
    r"/v1/responses": [
        post("/v1/responses", model="gpt-5", input="go on", previous_response_id="{response}"),
        post("/v1/responses", model="gpt-5", input="go on", conversation="{conversation}"),
    ],
    r"/v1/responses/([^/]{1,100})": [
        get("/v1/responses/{response}"),
        get("/v1/responses/{response}?stream=true"),
        delete("/v1/responses/{response}"),
    ],
    r"/v1/responses/([^/]{1,100})/cancel": [post("/v1/responses/{response}/cancel")],
    r"/v1/responses/([^/]{1,100})/input_items": [get("/v1/responses/{response}/input_items")],
    r"/v1/messages": [],
    r"/v1/messages/count_tokens": [],
    r"/v1/counsel": [],
    r"/v1/counsel/cancel": [post("/v1/counsel/cancel", key="{key}")],
    r"/v1/models": [],
    r"/v1/models/(.{1,200})": [],
}


async def test_no_v1_endpoint_knows_of_anothers_work(team: TeamServer, ann: Ids, fake_api: FakeAPI) -> None:
    bob, absent = await team.person("Bob"), unknown(ann)
    absent.names["response"] = f"resp_{uuid4()}"
    patterns = {cast(Any, pattern).__self__.pattern for pattern, _ in v1._ROUTES}
    assert patterns >= V1.keys()
    assert patterns == V1.keys(), patterns ^ V1.keys()
    for asks in V1.values():
        for ask in asks:
            for_ann, for_nobody = await answer_of(bob, ask, ann), await answer_of(bob, ask, absent)
            assert for_ann[0] == for_nobody[0], for_ann
            if for_ann[0] != 200:
                assert for_ann == for_nobody
            assert "xylophone" not in for_ann[1]
    message = {"model": "gpt-5", "messages": [{"role": "user", "content": "go on"}]}
    headers = {"X_Counsel_Conversation": ann.conversation}
    assert (await bob.post("/v1/chat/completions", message, **headers))[0] == 200  # a conversation of his own
    assert "xylophone" not in json.dumps(fake_api.last.body)
    assert (await team.ann.get(f"/v1/responses/{ann.response}"))[0] == 200  # type: ignore[attr-defined]


# ── keys, names, files, images, answers ──────────────────────────────────────────────────────────────


async def test_idempotency_keys_and_chosen_names_are_each_persons_own(
    team: TeamServer, ann: Ids, fake_api: FakeAPI
) -> None:
    bob = await team.person("Bob")
    question = {"prompt": "other", "model": "gpt-5"}
    status, mine = await bob.post("/api/jobs", question, Idempotency_Key="once")
    assert (status, mine["content"]) == (200, "gpt-5 says: other")
    theirs: Api = team.ann  # type: ignore[attr-defined]
    names = []
    for api, prompt in ((theirs, SECRET), (bob, "hello")):
        body = {"prompt": prompt, "model": "gpt-5", "continuation_id": "our-thread"}
        _, answer = await api.post("/api/jobs", body)
        _, again = await api.post("/api/jobs", body)
        assert answer["continuation"]["id"] == again["continuation"]["id"]
        names.append(answer["continuation"]["id"])
    assert names[0] != names[1]
    assert "xylophone" not in json.dumps(fake_api.last.body)


async def test_only_the_person_who_uploaded_a_file_can_send_it(team: TeamServer, ann: Ids) -> None:
    bob = await team.person("Bob")
    absent = ann.upload.replace(ann.upload.split("/")[2], uuid4().hex)
    answers = [
        await bob.post("/api/jobs", {"prompt": "look", "model": "gpt-5", "images": [path]})
        for path in (ann.upload, absent)
    ]
    texts = [
        json.dumps(answer).replace(path, "")
        for answer, path in zip(answers, (ann.upload, absent), strict=True)
    ]
    assert texts[0] == texts[1]
    assert answers[0][0] == 404


async def test_a_shared_conversation_is_read_by_the_team_and_continued_by_its_owner(
    team: TeamServer, ann: Ids
) -> None:
    bob = await team.person("Bob")
    theirs: Api = team.ann  # type: ignore[attr-defined]
    assert (await theirs.post(f"/api/conversations/{ann.conversation}/share"))[0] == 200
    status, document = await bob.get(f"/api/conversations/{ann.conversation}")
    assert (status, document["shared"]["by"], document["is_own"]) == (200, "Ann", False)
    assert "xylophone" in json.dumps(document)
    assert [row["id"] for row in (await bob.get("/api/conversations", shared="1"))[1]["conversations"]] == [
        ann.conversation
    ]
    assert (await bob.get("/api/conversations"))[1]["conversations"] == []
    async with bob.session.get(f"/api/images/{ann.image}") as answer:
        assert answer.status == 200
    async with bob.session.get(f"/api/conversations/{ann.conversation}/export") as answer:
        assert answer.status == 200
    for body in ({"prompt": "go on", "model": "gpt-5", "continuation_id": ann.conversation},):
        assert (await bob.post("/api/jobs", body))[0] == 403
    assert (await bob.get(f"/api/jobs/{ann.job}"))[0] == 404
    assert (await bob.delete(f"/api/conversations/{ann.conversation}"))[0] == 404
    assert (await bob.post(f"/api/conversations/{ann.conversation}/unshare"))[0] == 404
    assert (await theirs.post(f"/api/conversations/{ann.conversation}/unshare"))[0] == 200
    assert (await bob.get(f"/api/conversations/{ann.conversation}"))[0] == 404
    async with bob.session.get(f"/api/images/{ann.image}") as answer:
        assert answer.status == 404


async def test_a_laptop_shares_a_conversation_at_the_server(team: TeamServer, ann: Ids) -> None:
    bob = await team.person("Bob")
    login = TeamLogin(team.address, team.tokens["Ann"])
    transport = Transport()
    try:
        document = await team_models.share(transport, login, {}, ann.conversation, on=True)
        assert (await bob.get(f"/api/conversations/{ann.conversation}"))[0] == 200
        assert cast(Any, document)["shared"]["by"] == "Ann"
        assert "shared" not in await team_models.share(transport, login, {}, ann.conversation, on=False)
        with pytest.raises(CounselError):
            await team_models.share(transport, login, {}, "conv_../../jobs", on=True)
    finally:
        await transport.close()
    assert (await bob.get(f"/api/conversations/{ann.conversation}"))[0] == 404


async def test_cached_answers_are_not_shared(
    team: TeamServer, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = team.engine  # the lifetime is the server's setting
    assert identity.is_team
    store = team.engine.store
    from support.stored import reply

    await store.scoped("p_ann").cache_answer("key", reply("hers"), expires=4e9)
    assert (await store.scoped("p_bob").cached_answer("key")) is None
    assert (await store.cached_answer("key")) is None
