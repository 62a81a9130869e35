"""The interfaces that read lines: a front's stdin, the daemon's socket, askModel's socket."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.effort import fuzz
from fuzz.inputs import CUTS, LINES, documents, pieces
from fuzz.oracle import check_answer, unharmed
from support.processes import PING, Lines, daemon, encoded, front, piped, process

pytestmark = pytest.mark.slow  # left out of `make check`

HELLO = b'@{"hello":{"role":"mcp","cwd":"/","env":{}}}\n'
ENGINE = b'@{"hello":{"role":"engine"}}\n'
QUESTIONS = [
    {"id": 1, "method": "recent", "params": {"limit": 3}},
    {"id": 2, "method": "status", "params": {"any_id": "conv_1", "full_history": False}},
    {"id": 3, "method": "drop"},
    {"hello": {"role": "mcp", "cwd": "/", "env": {}, "initialize": {"protocolVersion": "2025-03-26"}}},
    {"key": "k"},
    {"initialize": {"protocolVersion": "2025-03-26", "clientInfo": {"name": "x"}}},
]
ASKED = [
    {"requestId": "a", "model": "gpt-5", "prompt": "hello", "stream": True, "sessionTag": "t", "tools": []},
    {"requestId": "a", "cancel": True},
    {"requestId": "b", "model": "gpt-5", "prompt": "hello", "timestamp": 1},
]


@pytest.fixture(scope="module")
def running_daemon(home: Path, vendor: dict[str, str]) -> Iterator[tuple[int, str]]:
    with daemon(home, env=vendor) as process:
        yield process


def answers(path: str) -> bool:
    peer = Lines.to(path)
    peer.send(HELLO + encoded(PING))
    reply = peer.until("alive?")
    peer.close()
    return reply[-1] is not None


def exchange(lines: Lines, messages: list[bytes], cuts: list[int], last: bytes) -> None:
    for piece in pieces(b"\n".join(messages) + b"\n" + last, cuts):
        if not lines.send(piece):
            return


def test_the_front(home: Path, running_daemon: tuple[int, str], vendor: dict[str, str]) -> None:
    pid, path = running_daemon

    with front(home, env=vendor) as (front_process, client), unharmed(home, pid, lambda: answers(path)):

        @fuzz
        @given(messages=LINES, cuts=CUTS)
        def run(messages: list[bytes], cuts: list[int]) -> None:
            exchange(client, messages, cuts, encoded(PING))
            reply = client.until("alive?")
            assert reply[-1] is not None, "the front ended"
            for message in reply:
                check_answer(message)

        with unharmed(home, front_process.pid, lambda: front_process.poll() is None):
            run()


@pytest.mark.parametrize("hello", [b"", HELLO, ENGINE], ids=["no-hello", "client", "program"])
def test_the_daemons_socket(home: Path, running_daemon: tuple[int, str], hello: bytes) -> None:
    pid, path = running_daemon
    notes = st.builds(b"@".__add__, documents(QUESTIONS))

    @fuzz
    @given(
        messages=st.lists(st.one_of(documents(), documents(QUESTIONS), notes), min_size=1, max_size=4),
        cuts=CUTS,
    )
    def run(messages: list[bytes], cuts: list[int]) -> None:
        messages = [line for line in messages if b"daemon_stop" not in line and b"handover" not in line]
        peer = Lines.to(path)
        last = (
            encoded(PING) if hello == HELLO else b"no message\n"
        )  # a program is then refused, with the reason
        exchange(peer, [hello.strip(), *messages], cuts, last)
        for message in peer.until("alive?"):
            check_answer(message)
        peer.close()
        assert answers(path)

    with unharmed(home, pid, lambda: answers(path)):
        run()


def test_the_askmodel_service(home: Path, running_daemon: tuple[int, str], vendor: dict[str, str]) -> None:
    with process(home, "ask-service", "--session", "fuzz", env=vendor) as child:
        path = json.loads(piped(child.stdout).readline())["socket"]

        @fuzz
        @given(messages=st.lists(documents(ASKED), min_size=1, max_size=4), cuts=CUTS)
        def run(messages: list[bytes], cuts: list[int]) -> None:
            peer = Lines.to(path)
            exchange(
                peer,
                messages,
                cuts,
                encoded({"requestId": "alive?", "model": "no such model", "prompt": "x"}),
            )
            reply = peer.until("alive?", "requestId")
            assert reply[-1] is not None, "the service closed"
            for message in reply:
                check_answer(message)
            peer.close()
            assert is_served(path, child)

        with unharmed(home, child.pid, lambda: is_served(path, child)):
            run()


def is_served(path: str, child: subprocess.Popen[bytes]) -> bool:
    peer = Lines.to(path)
    peer.send(encoded({"requestId": "other", "model": "no such model", "prompt": "x"}))
    reply = peer.until("other", "requestId")
    peer.close()
    return reply[-1] is not None and child.poll() is None
