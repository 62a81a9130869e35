"""One id for each request, from its header to the log lines of its calls."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counsel import logs, settings
from counsel.http.auth import Message
from counsel.http.request_ids import RequestIds
from fake import FakeAPI
from support import api_client
from support.http_server import served

PROMPT = "the secret plan of the northern office"


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What stderr gets in the form `json`; the root logger is put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("counsel")
    before, level = list(root.handlers), ours.level
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.setup(
        settings.load({"COUNSEL_HOME": str(tmp_path / "logs"), "COUNSEL_LOG_FORMAT": "json"}), stderr=True
    )
    yield stream
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    ours.setLevel(level)


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_one_id_from_the_header_to_the_call(
    tmp_path: Path, fake_api: FakeAPI, lines: io.StringIO
) -> None:
    fake_api.script(status=500, times=1)
    async with api_client.in_process(tmp_path, fake_api, COUNSEL_LOG_FORMAT="json") as api:
        body = {"prompt": PROMPT, "model": "gpt-5"}
        async with api.session.post(
            "/api/jobs?project=", json=body, headers={"X-Request-ID": "req:1.a-b"}
        ) as answer:
            assert answer.headers["X-Request-ID"] == "req:1.a-b"
            assert answer.status == 400  # `project` is no parameter
        async with api.session.post("/api/jobs", json=body, headers={"X-Request-ID": "req-2"}) as answer:
            assert answer.status == 200
    lines_of_log = records(lines)
    calls = [record for record in lines_of_log if record["logger"] == "counsel.calls"]
    assert len(calls) >= 2  # a retry, and the answer
    assert {record["request_id"] for record in calls} == {"req-2"}
    requests = [record for record in lines_of_log if record["logger"] == "counsel.access"]
    assert [(record["message"], record["status"], record["request_id"]) for record in requests] == [
        ("POST /api/jobs", 400, "req:1.a-b"),
        ("POST /api/jobs", 200, "req-2"),
    ]
    text = lines.getvalue()
    assert "northern" not in text
    assert "sk-test" not in text
    assert api_client.TOKEN not in text


async def test_what_is_not_a_request_passes_unchanged() -> None:
    passed: list[object] = []

    async def app(*arguments: object) -> None:
        passed.extend(arguments)

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        """Nothing is sent."""

    scope = {"type": "lifespan"}
    await RequestIds(app)(scope, receive, send)
    assert passed == [scope, receive, send]


@pytest.mark.parametrize("header", ["", "a b", "x" * 129, 'a"b', "ä"])
async def test_an_id_that_is_not_plain_is_replaced(tmp_path: Path, header: str) -> None:
    async with served(tmp_path) as client:
        headers = {"X-Request-ID": header.encode().decode("latin-1")} if header else {}
        for path in ("/health", "/api/unknown"):
            async with client.session.get(f"{client.base}{path}", headers=headers) as answer:
                assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Request-ID"])


def test_a_record_is_one_line_of_json_without_keys(lines: io.StringIO, tmp_path: Path) -> None:
    log = logging.getLogger("counsel.test")
    try:
        int("Authorization: Bearer abcdefghijklmnop0123456789")
    except ValueError:
        log.exception("it\nfailed \x1b[31m %s", "sk-" + "a" * 40)
    logging.getLogger("library").warning("first\nsecond")
    ours, theirs = records(lines)
    assert (ours["level"], ours["logger"]) == ("error", "counsel.test")
    assert "ValueError" in ours["exception"]
    assert "abcdefghijklmnop0123456789" not in lines.getvalue()
    assert "a" * 40 not in lines.getvalue()
    assert theirs["message"] == "first"
    assert (tmp_path / "logs" / "logs" / "counsel.log").read_text() == lines.getvalue()


def test_what_a_server_says_as_it_starts_is_a_record_too(tmp_path: Path, lines: io.StringIO) -> None:
    config = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_LOG_FORMAT": "json"})
    logs.announce(config, "counsel listens")
    (record,) = records(lines)
    assert (record["message"], record["level"]) == ("counsel listens", "info")
