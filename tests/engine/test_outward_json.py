"""The JSON that leaves the engine, byte for byte: over the daemon's socket (which `--json` prints), to MCP clients, as
server-sent events, and in the rows of the database.

`COUNSEL_GOLDEN=write pytest …` rewrites the files; use it only for an intended change of the format.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from counsel import strict_json
from counsel.caller import Caller
from counsel.daemon.rpc_server import RpcServer, caller_to_json, request_to_json
from counsel.engine.engine import Engine
from counsel.http.api import job_stream
from counsel.http.api.event_cursor import Cursor, resumed
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import McpLines
from counsel.mcp.session import Session
from counsel.requests import ChatRequest, ConsensusRequest, Request
from fake import FakeAPI
from support.database import rows

GOLDEN = Path(__file__).parent.parent / "golden" / "results"
_USAGE = {"input": 10, "output": 5}
THREE = ("gpt-5", "sonnet", "gemini-2.5-flash")
_ID = r"(?:conv|ask|consensus|job)_[A-Za-z0-9_-]{8,}"
_NUMBERS = (
    "first_ms|response_time_ms|response_time|total_response_time|elapsed_seconds|ms|at|created|updated|ttlMs"
)
# The wording for people is not part of the format.
_STRING = r'(?:[^"\\]|\\.)*'
_WORDING = (
    rf'("(?:error|hint|note|message)": ?"){_STRING}(")',
    rf'("content":\[\{{"type":"text","text":"){_STRING}(")',
    r'(⚠ ).*?((?=\\n|"))',
    r"()Only one model answered[^\\]*()",
)


class Recorder:
    """A transcript with ids, times, durations and wording that are the same in every run."""

    def __init__(self, project: Path) -> None:
        self.lines: list[str] = []
        self._project = str(project)
        self._names: dict[str, str] = {}

    def add(self, title: str, text: str | bytes) -> None:
        self.lines.append(f"# {title}\n{self._plain(text.decode() if isinstance(text, bytes) else text)}")

    def _plain(self, text: str) -> str:
        text = text.replace(self._project, "PROJECT")
        text = re.sub(_ID, lambda match: self._name(match[0]), text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?", "TIME", text)
        text = re.sub(r"\b\d+\.\d s\b", "0.0 s", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
        text = re.sub(rf'"({_NUMBERS})":( ?)[\d.]+', r'"\1":\g<2>0', text).rstrip("\n")
        for pattern in _WORDING:
            text = re.sub(pattern, r"\1WORDS\2", text)
        return text

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"{name.partition('_')[0]}_{len(self._names) + 1}")

    def check(self, name: str) -> None:
        file, text = GOLDEN / f"{name}.txt", "\n\n".join(self.lines) + "\n"
        if os.environ.get("COUNSEL_GOLDEN") == "write":
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")


class Interfaces:
    """One engine behind its socket, MCP and `/api`, with the bytes that each writes."""

    def __init__(self, engine: Engine, caller: Caller, fake_api: FakeAPI) -> None:
        self.engine, self.caller, self.fake_api = engine, caller, fake_api
        self.seen = Recorder(caller.cwd)
        self.followed = asyncio.Event()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._rpc_server = RpcServer(engine, self._answers.put_nowait, dict, lambda _: None)
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        identity = ClientIdentity(env=caller.env, cwd=caller.cwd)
        self._mcp = McpLines(Session(engine, identity), self._messages.put_nowait)

    async def rpc(self, title: str, method: str, **params: Any) -> Any:
        self._rpc_server.line(json.dumps({"id": 1, "method": method, "params": params}).encode())
        answer = await self._answers.get()
        self.seen.add(f"{method}: {title}", answer)
        await asyncio.sleep(0)  # the number is free again
        return json.loads(answer).get("result")

    async def submit(self, request: Request, *, background: bool = False) -> str:
        document = {"request": request_to_json(request), "caller": caller_to_json(self.caller)}
        job: str = await self.rpc(
            "a question", "submit", **document, background=background, key=os.urandom(9).hex()
        )
        return job

    async def ask(self, request: Request, title: str) -> str:
        """A job from its submission to its end, in all forms."""
        self.fake_api.close_gate("followed")
        self.followed.clear()
        job = await self.submit(request)
        following = asyncio.ensure_future(self.events(job))
        await self.followed.wait()
        self.fake_api.open_gate("followed")
        await self.rpc(title, "wait", job_id=job)
        await self.rpc(title, "status", any_id=job, full_history=False)
        await self.rpc(f"{title}, with its history", "status", any_id=job, full_history=True)
        await self.rpc(f"{title}, accepted", "accepted", job_id=job)
        self.seen.add(f"events: {title}", await following)
        return job

    async def events(self, job: str) -> str:
        """The events as they were sent, grouped by model, without numbers, and with pieces of a text joined."""
        stream_text = ""
        async for line in job_stream.stream(resumed(self.engine.events(job), Cursor()), asyncio.Event()):
            stream_text += line
            self.followed.set()
        by_slot: dict[str, str] = {}
        for message in stream_text.split("\n\n"):
            if not message.startswith("id:"):
                continue
            plain = re.sub(r'id: [^\n]*\n|(?<="seq":)\d+', "", message)
            slot = re.findall(r'"slot":"(\d*)"', plain)[0]
            by_slot[slot] = by_slot.get(slot, "") + plain + "\n"
        piece = rf'("kind":"text"[^\n]*"text":"{_STRING})("[^\n]*)\ndata: [^\n]*"kind":"text"[^\n]*"text":"({_STRING})"[^\n]*'
        joined = "".join(by_slot[slot] for slot in sorted(by_slot))
        while (merged := re.sub(piece, r"\1\3\2", joined)) != joined:
            joined = merged
        return joined

    async def mcp(self, title: str, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self._mcp.line(json.dumps(message).encode())
        answer = b""
        while not answer.strip():
            answer = await self._messages.get()
        self.seen.add(f"MCP {tool}: {title}", answer)

    async def handshake(self) -> None:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        self._mcp.line(json.dumps(message).encode())
        await self._messages.get()
        self._mcp.line(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    async def rows(self) -> None:
        await self.engine.store.flush()
        for title, query in _ROWS.items():
            order = "rowid" if self.engine.store.team is None else "number"
            for row in await rows(self.engine, query.replace("rowid", order)):
                self.seen.add(f"row of {title}", " | ".join(map(_text, row)))


_ROWS = {
    "jobs": "SELECT id, status, completed, total, models, result, error, title, task FROM jobs ORDER BY rowid",
    "calls": "SELECT job, calls.key, reply FROM calls JOIN jobs ON jobs.id = job ORDER BY jobs.rowid, calls.key",
    "messages": "SELECT role, about FROM messages JOIN jobs ON jobs.id = job ORDER BY jobs.rowid, n",
}


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else str(value)


def before(fake_api: FakeAPI, **rule: Any) -> None:
    """Add rules before those that exist."""
    fake_api.script(**rule, gate="followed")
    fake_api.rules.insert(0, fake_api.rules.pop())


@pytest.fixture
async def outward(
    engine: Engine, caller: Any, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> Interfaces:
    # Another test of this process may have switched to msgspec, which writes 0.0000625 for 6.25e-05.
    monkeypatch.setattr(strict_json, "_quick_encode", None)
    monkeypatch.setattr(strict_json, "_quick_decode", None)
    for model in ("gpt", "sonnet", "gemini", "grok", "opus", "claude"):
        fake_api.script(text=f"{model} answers.", usage=_USAGE, gate="followed", model=model, times=None)
    interfaces = Interfaces(engine, caller(), fake_api)
    fake_api.open_gate("followed")
    await interfaces.handshake()
    return interfaces


async def test_a_chat_its_conversation_and_its_failures(
    outward: Interfaces, fake_api: FakeAPI, project: Path
) -> None:
    (project / "a.py").write_text("print(1)\n")
    first = await outward.ask(ChatRequest(prompt="hello", model="gpt-5", files=("a.py",)), "an answer")
    await outward.mcp("the same job", "check_status", continuation_id=first)
    before(
        fake_api,
        text="found",
        sources=[{"url": "https://example.org", "title": "Example"}],
        usage={"reasoning": 3},
    )
    await outward.ask(
        ChatRequest(
            prompt="search", model="gpt-5", use_websearch=True, temperature=0.7, continuation_id="mine"
        ),
        "a source, a setting that was left out, a name of the caller's",
    )
    before(fake_api, finish="length", vendor="anthropic")
    await outward.mcp("an answer that was cut", "chat", prompt="long", model="sonnet")
    before(fake_api, status=401, model="gpt", times=None)
    await outward.ask(ChatRequest(prompt="fails", model="gpt-5"), "a failure")
    await outward.mcp("a failure", "chat", prompt="fails", model="gpt-5")
    await outward.ask(ChatRequest(prompt="another one"), "others were passed over")
    await outward.mcp("others were passed over", "chat", prompt="another one")
    await outward.rows()
    outward.seen.check("chat")


async def test_a_partial_answer_and_a_cancelled_one(outward: Interfaces, fake_api: FakeAPI) -> None:
    before(fake_api, text="aaabbbccc", error_after=1, error="bad_request", vendor="anthropic", times=None)
    await outward.ask(ChatRequest(prompt="breaks off", model="sonnet"), "it broke off")
    before(fake_api, text="aaabbbccc", hang_after=1, model="gemini")
    job = await outward.submit(ChatRequest(prompt="hangs", model="gemini-2.5-flash"), background=True)
    await outward.rpc("a background job", "accepted", job_id=job)
    async with asyncio.timeout(20):
        while (await outward.engine.status(job)).partial != "aaa":
            await asyncio.sleep(0.02)
    await outward.rpc("it runs", "status", any_id=job, full_history=False)
    await outward.rpc("jobs", "recent", limit=5)
    await outward.mcp("jobs", "check_status")
    await outward.rpc("it runs", "cancel", any_id=job)
    await outward.rpc("it is over", "cancel", any_id=job)
    await outward.mcp("it is over", "cancel_job", continuation_id=job)
    await outward.rpc("cancelled", "status", any_id=job, full_history=False)
    outward.seen.add("events: cancelled", await outward.events(job))
    await outward.rpc("there is none", "status", any_id="conv_nonsense", full_history=False)
    await outward.rows()
    outward.seen.check("broken")


async def test_a_consensus_with_and_without_failures(outward: Interfaces, fake_api: FakeAPI) -> None:
    await outward.ask(ConsensusRequest(prompt="which?", models=THREE), "everyone answered")
    before(fake_api, status=401, vendor="anthropic", times=None)
    before(fake_api, status=401, model="grok", contains="<answer from", times=None)
    await outward.ask(
        ConsensusRequest(prompt="which?", models=("gpt-5", "gpt-5", "sonnet", "grok-4", "nonsense-9")),
        "three failed",
    )
    await outward.mcp(
        "one failed, one did not refine", "consensus", prompt="which?", models=["gpt-5", "sonnet", "grok-4"]
    )
    await outward.ask(ConsensusRequest(prompt="which?", models=("gpt-5", "sonnet")), "one answered")
    await outward.ask(ConsensusRequest(prompt="which?", models=("sonnet", "nonsense-9")), "nobody answered")
    job = await outward.submit(
        ConsensusRequest(prompt="later", models=("gpt-5", "grok-4"), enable_cross_feedback=False),
        background=True,
    )
    await outward.rpc("a background job", "wait", job_id=job)
    await outward.rpc("a background job", "accepted", job_id=job)
    await outward.mcp("a background job", "check_status", continuation_id=job, full_history=True)
    await outward.rows()
    outward.seen.check("consensus")
