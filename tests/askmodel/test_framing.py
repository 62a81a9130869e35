"""Where a request ends: lines, objects without a line end, pieces of any size."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counsel.askmodel import service as askmodel_service
from counsel.askmodel.json_objects import NewlineInserter
from counsel.askmodel.service import AskService
from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.front.json_messages import encode
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import Splitter
from counsel.results import ChatResult
from fake import FakeAPI
from support.ask_service import SocketClient, service


async def test_two_objects_without_a_line_end_are_two_requests(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        message = {"model": "gpt-5", "prompt": "hello"}
        both = [json.dumps({"requestId": name, "sessionTag": name, **message}) for name in ("a", "b")]
        client.writer.write("".join(both).encode())
        client.send("c", sessionTag="c")
        answers = await client.lines(3)
        assert {name: answer["text"] for name, answer in answers.items()} == dict.fromkeys(
            "abc", "gpt-5 says: hello"
        )
        client.close()


_TEXT = st.text(max_size=8)

_VALUES = st.recursive(
    _TEXT | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)

_OBJECTS = st.lists(st.dictionaries(_TEXT, _VALUES, max_size=4), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(objects=_OBJECTS, kind=st.sampled_from([("", " "), ("\n", "\n ")]), data=st.data())
def test_an_objects_end_is_found_however_it_is_split(
    objects: list[dict[str, object]], kind: tuple[str, str], data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.sampled_from(kind), min_size=len(objects), max_size=len(objects)))
    text = "".join(json.dumps(document) + end for document, end in zip(objects, ends, strict=True)).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
    matches: list[bytes] = []
    inserter, splitter = NewlineInserter(), Splitter(matches.append, lambda _: None)
    for piece in pieces:
        splitter.feed(inserter.feed(piece))
    assert [json.loads(line) for line in matches] == objects


def test_what_is_no_object_waits_for_its_line_end() -> None:
    for text in (b'"text"', b"[1]", b"}", b"{" * 200, b'{"a": ', b'{"a": "}'):
        assert NewlineInserter().feed(text) == text


def test_after_the_begin_of_something_else_the_rest_of_its_line_is_left_as_it_is() -> None:
    objects = b'{"a":1}{"b":2}'
    for begin in (b"x", b" 1", b"[", b'"'):
        inserter = NewlineInserter()
        assert inserter.feed(begin) == begin
        assert inserter.feed(objects + b"\n") == objects + b"\n"
        assert inserter.feed(objects) == b'{"a":1}\n{"b":2}\n', "but not the next line"
    inserter = NewlineInserter()
    assert inserter.feed(b"  \t") == b"  \t"
    assert inserter.feed(objects) == b'{"a":1}\n{"b":2}\n'


@settings(deadline=None)
@given(data=st.data(), texts=st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_lines_split_anywhere_are_the_same_lines(data: st.DataObject, texts: list[str]) -> None:
    stream = b"".join(encode({"prompt": text}) for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    prompts: list[str] = []
    splitter = Splitter(
        lambda line: prompts.append(json.loads(line)["prompt"]), lambda too_long: pytest.fail(str(too_long))
    )
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        splitter.feed(stream[start:end])
    assert prompts == texts


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=8), text=st.text(max_size=200).map("é".__add__)
)
def test_a_request_split_anywhere_is_answered(sizes: list[int], text: str, tmp_path: Path) -> None:
    asyncio.run(_split(sizes, text, tmp_path))


async def _split(sizes: list[int], text: str, home: Path) -> None:
    engine: Any = Echo()
    async with AskService(
        engine, ClientIdentity(env={"COUNSEL_HOME": str(home)}, cwd=home), "s", home
    ) as ask_service:
        client = await SocketClient.to(ask_service.path)
        stream = b"".join(encode({"requestId": f"{n}é", "model": "m", "prompt": text}) for n in range(3))
        at, turn = 0, 0
        while at < len(stream):
            size = sizes[turn % len(sizes)]
            client.writer.write(stream[at : at + size])
            await client.writer.drain()
            await asyncio.sleep(0)
            at, turn = at + size, turn + 1
        answers = await client.lines(3)
        assert {line["text"] for line in answers.values()} == {text}
        assert set(answers) == {"0é", "1é", "2é"}
        client.close()


def test_an_object_with_more_marks_than_the_parser_takes_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("counsel.askmodel.json_objects._MOST_MARKS", 5)
    assert NewlineInserter().feed(b'{"a":[1]}{"b":2}') == b'{"a":[1]}\n{"b":2}\n'
    assert NewlineInserter().feed(b'{"a":[[1]]}{"b":2}') == b'{"a":[[1]]}{"b":2}'
    again = NewlineInserter()
    again.feed(b'{"a":[[1]]}\n')
    assert again.feed(b'{"b":2}') == b'{"b":2}\n', "the next line is another one"


async def test_of_too_many_connections_the_one_that_was_idle_for_longest_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(askmodel_service, "most_connections", lambda _: 2)
    engine: Any = Echo()
    identity = ClientIdentity(env={"COUNSEL_HOME": str(tmp_path)}, cwd=tmp_path)
    async with AskService(engine, identity, "s", tmp_path) as ask_service:
        clients = []
        for number in range(3):
            clients.append(await SocketClient.to(ask_service.path))
            clients[-1].send(f"first {number}")
            await clients[-1].line()
            for client in clients[-2:]:  # two are allowed: both are served
                client.send(f"again {number}")
                await client.line()
        assert "closed for a newer one" in (await clients[0].line())["error"]
        assert await asyncio.wait_for(clients[0].reader.read(), 20) == b""
        for client in clients:
            client.close()


async def test_dozens_of_idle_connections_stay_open(tmp_path: Path) -> None:
    engine: Any = Echo()
    identity = ClientIdentity(env={"COUNSEL_HOME": str(tmp_path)}, cwd=tmp_path)
    async with AskService(engine, identity, "s", tmp_path) as ask_service:
        clients = [await SocketClient.to(ask_service.path) for _ in range(24)]
        for number, client in enumerate(clients):
            client.send(f"request {number}")
            assert (await client.line())["requestId"] == f"request {number}"
        for client in clients:
            client.close()


async def test_a_connection_that_has_asked_nothing_makes_room_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(askmodel_service, "most_connections", lambda _: 2)
    engine: Any = Echo()
    identity = ClientIdentity(env={"COUNSEL_HOME": str(tmp_path)}, cwd=tmp_path)
    async with AskService(engine, identity, "s", tmp_path) as ask_service:
        silent = await SocketClient.to(ask_service.path)
        others = []
        for number in range(2):
            others.append(await SocketClient.to(ask_service.path))
            others[-1].send(f"first {number}")
            assert (await others[-1].line())["requestId"] == f"first {number}"
        assert "closed for a newer one" in (await asyncio.wait_for(silent.line(), 20))["error"]
        for client in (silent, *others):
            client.close()


class Echo:
    """An engine that answers with the prompt, for tests of lines."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    async def submit(self, request: Any, caller: Caller, *, background: bool = False, key: Any = None) -> str:
        self.asked[name := f"job_{len(self.asked)}"] = request.prompt
        return name

    async def wait(self, job_id: str) -> ChatResult:
        return ChatResult.from_json({"content": self.asked[job_id], "continuation": {"id": "ask_1"}})

    async def cancel(self, any_id: str) -> dict[str, Any]:
        return {}


async def test_a_message_of_many_megabytes(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(size=5_000_000, times=None)
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("big", "x" * 300_000)  # what fits the model's window
        client.send("small", "y", sessionTag="other")
        answers = await client.lines(2)
        assert [len(answers[name]["text"]) for name in ("big", "small")] == [5_000_000, 5_000_000]
        for size, code in ((10_000_000, "CONTEXT_LENGTH_EXCEEDED"), (20_000_000, "INVALID_ARGUMENT")):
            client.writer.write(
                b'{"requestId": "wide", "model": "gpt-5", "prompt": "' + b"z" * size + b'"}\n'
            )
            assert (await client.line())["code"] == code
        client.close()
