"""The front and the daemon as real processes, with an engine in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counsel import run_paths as place
from counsel import settings
from counsel.daemon.rpc_client import find
from counsel.errors import Internal
from counsel.front import environment, main, protocol
from counsel.mcp.session import listing
from support.stdio_client import FRONT, SHORT_LIVED, StdioClient, daemon_ends, daemon_pid, kill_daemon

pytestmark = pytest.mark.thorough  # left out of `make check`: starts processes and waits for time limits


async def test_the_front_answers_as_the_daemon_would(home: Path) -> None:
    async with StdioClient(home) as client:
        first = await client.initialize("2025-06-18")
        assert first["protocolVersion"] == "2025-06-18"
        assert (await client.ask("tools/list"))["tools"] == listing()
        assert await client.text("echo hi") == "echo hi"


async def test_the_handshake_needs_no_daemon(home: Path) -> None:
    (home / "run").write_text("a file where the folder should be")
    (home / "run").chmod(0o600)
    async with StdioClient(home) as client:
        await client.initialize()
        assert len((await client.ask("tools/list"))["tools"]) == 5


async def test_twenty_clients_at_once_start_one_daemon(home: Path) -> None:
    clients = [StdioClient(home) for _ in range(20)]
    for client in clients:
        await client.__aenter__()
    await asyncio.gather(*(client.initialize() for client in clients))
    texts = await asyncio.gather(*(client.text(f"echo {at}") for at, client in enumerate(clients)))
    assert texts == [f"echo {at}" for at in range(20)]
    jobs = (await clients[0].call("check_status"))["structuredContent"]["content"]["jobs"]
    assert len(jobs) == 10  # all in one engine
    engine = await find({"COUNSEL_HOME": str(home)})
    assert engine is not None
    status = await engine.daemon_status()
    assert len(status["clients"]) == 20
    assert status["pid"] == daemon_pid(home)
    await engine.close()
    for client in clients:
        await client.__aexit__()


def environ_of(pid: int | None) -> bytes:
    file = Path(f"/proc/{pid}/environ")
    return file.read_bytes() if sys.platform == "linux" else b""


async def test_two_clients_with_different_keys_and_folders_stay_apart(home: Path, tmp_path: Path) -> None:
    (first_folder := tmp_path / "one").mkdir()
    (second_folder := tmp_path / "two").mkdir()
    first = StdioClient(home, "--as", "claude", cwd=first_folder, OPENAI_API_KEY="sk-one", SECRET_THING="x")
    second = StdioClient(home, cwd=second_folder, OPENAI_API_KEY="sk-two")
    async with first, second:
        await first.initialize(name="anything")
        await second.initialize(name="codex-mcp-client")
        assert await first.text("env OPENAI_API_KEY") == f"sk-one|{first_folder}|anything|claude"
        assert await second.text("env OPENAI_API_KEY") == f"sk-two|{second_folder}|codex-mcp-client|codex"
        assert (await first.text("env SECRET_THING")).startswith("|")
    assert b"sk-one" not in environ_of(daemon_pid(home))


async def test_the_daemon_dies_and_the_caller_still_gets_the_answer(home: Path, tmp_path: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize()
        answer = client.begin("chat", prompt=f"later {tmp_path / 'now'}")
        await client.ask("resources/list")  # the daemon has had the call
        first = daemon_pid(home)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        (tmp_path / "now").touch()
        result = (await asyncio.wait_for(answer, 30))["result"]
        assert result["structuredContent"]["content"].startswith("key ")
        assert daemon_pid(home) not in {None, first}
        assert await client.text("echo on") == "echo on"


async def test_a_call_cancelled_while_the_daemon_is_away_is_cancelled_in_the_next(home: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize()
        client.begin("chat", prompt="hang")
        await client.ask("resources/list")
        kill_daemon(home)
        client.notify("notifications/cancelled", {"requestId": client.number - 1})
        async with asyncio.timeout(20):
            while True:
                content = (await client.call("check_status"))["structuredContent"]["content"]
                if [job["status"] for job in content["jobs"]] == ["cancelled"]:
                    return


async def test_a_closed_client_stops_its_call_but_not_its_background_job(home: Path) -> None:
    async with StdioClient(home) as observer:
        await observer.initialize()
        async with StdioClient(home) as client:
            await client.initialize()
            await client.call("chat", prompt="hang", **{"async": True})
            client.begin("chat", prompt="hang")
            await client.ask("resources/list")
            client.process.kill()
        async with asyncio.timeout(20):
            while True:
                content = (await observer.call("check_status"))["structuredContent"]["content"]
                if [job["status"] for job in content["jobs"]] == ["cancelled", "processing"]:
                    return


async def test_a_daemon_that_gets_a_stop_request_ends_and_the_next_call_starts_another(home: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize()
        await client.text("echo")
        first = daemon_pid(home)
        engine = await find(client.env)
        assert engine is not None
        await engine.daemon_stop()
        await daemon_ends(home)
        assert not (home / "run" / "daemon.sock").exists()
        assert await client.text("echo again") == "echo again"
        assert daemon_pid(home) not in {None, first}


async def test_a_client_that_waits_for_nothing_starts_another_when_the_daemon_is_killed(home: Path) -> None:
    """Otherwise its background jobs would wait for the next call."""
    async with StdioClient(home) as client:
        await client.initialize()
        await client.text("echo")
        first = kill_daemon(home)
        async with asyncio.timeout(30):
            while daemon_pid(home) in {None, first}:
                await asyncio.sleep(0.01)


async def test_a_suspended_daemon_is_named_and_serves_again_when_it_is_awake(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with StdioClient(home) as first:
        await first.initialize()
        await first.text("echo")
        pid = kill_daemon(home, signal.SIGSTOP)
        async with StdioClient(home, COUNSEL_TEST_PATIENCE="0.5") as client:
            await client.initialize()
            failure = await client.call("chat", prompt="echo")
            assert failure["isError"]
            assert f"kill -CONT {pid}" in failure["structuredContent"]["error"]
            monkeypatch.setattr("counsel.daemon.rpc_client.START_TIMEOUT", 0.5)
            with pytest.raises(Internal, match=f"kill -CONT {pid}"):
                await find(client.env)
            waiting = first.begin("chat", prompt="echo later")
            kill_daemon(home, signal.SIGCONT)
            assert await client.text("echo again") == "echo again"
            assert (await waiting)["result"]["structuredContent"]["content"] == "echo later"


async def test_an_older_daemon_makes_room_and_its_call_goes_on_in_the_new_one(
    home: Path, tmp_path: Path
) -> None:
    async with StdioClient(home) as old:
        await old.initialize()
        answer = old.begin("chat", prompt=f"later {tmp_path / 'now'}")
        await old.ask("resources/list")
        first = daemon_pid(home)
        async with StdioClient(home, COUNSEL_TEST_VERSION="9.0.0") as new:
            await new.initialize()
            assert await new.text("echo") == "echo"
            assert daemon_pid(home) not in {None, first}
            (tmp_path / "now").touch()
            result = (await asyncio.wait_for(answer, 30))["result"]
            assert result["structuredContent"]["content"].startswith("key ")
            assert await old.text("echo") == "echo"


async def test_a_daemon_without_connections_ends_by_itself(home: Path) -> None:
    async with StdioClient(home, COUNSEL_DAEMON_IDLE_SECONDS="1") as client:
        await client.initialize()
        await client.text("echo")
        assert daemon_pid(home)
    await daemon_ends(home)


async def test_a_socket_left_by_a_killed_daemon_is_replaced(home: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize()
        await client.text("echo")
    kill_daemon(home)
    await daemon_ends(home)
    assert (home / "run" / "daemon.sock").exists()
    async with StdioClient(home) as client:
        await client.initialize()
        assert await client.text("echo") == "echo"


async def test_modes_of_the_run_folder(home: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize()
        await client.text("echo")
    run_folder = home / "run"
    assert run_folder.stat().st_mode & 0o777 == 0o700
    for file in run_folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file


async def test_a_home_with_a_long_path_works(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 100)
    home.mkdir()
    async with StdioClient(home) as client:
        await client.initialize()
        assert await client.text("echo") == "echo"
        kill_daemon(home, signal.SIGTERM)
        await daemon_ends(home)
    short = Path(place.socket(str(home)))
    assert len(str(short)) < 100
    assert short.parent.stat().st_mode & 0o777 == 0o700


async def test_messages_of_any_size_split_anywhere(home: Path) -> None:
    async with StdioClient(home, MAX_MCP_OUTPUT_TOKENS="200000") as client:
        await client.initialize()
        prompt = "echo " + "ü" * 150_000
        assert await client.text(prompt) == prompt
        line = json.dumps({"jsonrpc": "2.0", "id": "split", "method": "ping"}).encode() + b"\n"
        waiting = client.waiting["split"] = asyncio.get_running_loop().create_future()
        for at in range(len(line)):
            client.stdin.write(line[at : at + 1])
            await client.stdin.drain()
        assert (await asyncio.wait_for(waiting, 10))["result"] == {}


async def test_malformed_lines_batches_and_cancelling_pass_through_the_front(home: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize("2025-03-26")
        client.stdin.write(b"{nonsense\n")
        assert (await client.notes.get())["error"]["code"] == protocol.PARSE_ERROR
        for note in (b'@{"handover": true}', b'@{"hello": {"role": "engine"}}', b'@{"key": "stolen"}'):
            client.stdin.write(note + b"\n")  # only a front may send these to the daemon, never a client
            reply = await asyncio.wait_for(client.notes.get(), 30)
            assert reply["error"]["code"] == protocol.PARSE_ERROR
        client.send(
            [
                {"jsonrpc": "2.0", "id": 71, "method": "ping"},
                {"jsonrpc": "2.0", "id": 72, "method": "resources/list"},
            ]
        )
        assert [part["id"] for part in await client.notes.get()] == [71, 72]
        client.begin("chat", prompt="hang")
        await client.ask("resources/list")
        client.notify("notifications/cancelled", {"requestId": client.number - 1})
        async with asyncio.timeout(20):
            while (await client.call("check_status"))["structuredContent"]["content"]["jobs"][0][
                "status"
            ] != "cancelled":
                pass


async def test_when_no_daemon_can_be_reached_the_call_says_so(home: Path) -> None:
    script = (
        "import sys; from counsel.front import launcher, main; "
        "launcher.COMMAND = [sys.executable, '-c', 'import sys; sys.exit(\"it broke\")']; sys.exit(main.main([]))"
    )
    command = [sys.executable, "-c", script]
    async with StdioClient(home, command=command, COUNSEL_CLIENT_LIMIT_SECONDS="8") as client:
        await client.initialize()
        result = await client.call("chat", prompt="echo")
        assert result["isError"]
        assert "it broke" in result["structuredContent"]["error"]
        assert "Nothing was asked" in result["structuredContent"]["hint"]
        assert "job_id" not in result["structuredContent"]
        assert (await client.ask("ping")) == {}


def test_input_that_ends_at_once_is_still_answered(home: Path) -> None:
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    process = subprocess.run(
        [sys.executable, str(FRONT)],
        input="\n".join(map(json.dumps, lines)),
        env={**os.environ, "COUNSEL_HOME": str(home), **SHORT_LIVED},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert [json.loads(line)["id"] for line in process.stdout.splitlines()] == [1, 2]
    assert process.stderr == ""


@pytest.mark.parametrize(("args", "code"), [(["--as"], 2), (["--nope"], 2), (["--help"], 0)])
def test_options_of_the_front(args: list[str], code: int) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "counsel", "stdio", *args], capture_output=True, text=True, check=False
    )
    assert process.returncode == code
    assert "usage: counsel stdio" in process.stdout + process.stderr


def test_the_front_imports_next_to_nothing() -> None:
    script = "import sys; before = set(sys.modules); import counsel.front.main; print(*sorted(set(sys.modules) - before))"
    modules = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    ).stdout
    heavy = {
        "asyncio",
        "threading",
        "subprocess",
        "typing",
        "dataclasses",
        "pathlib",
        "socket",
        "inspect",
        "logging",
    }
    assert not heavy & set(modules.split())


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/h"},
        {"HOME": "/h", "XDG_DATA_HOME": "/d"},
        {"COUNSEL_HOME": "/c", "HOME": "/h"},
        {"COUNSEL_HOME": "~/c"},
        {"COUNSEL_HOME": "relative/../c", "HOME": "/h"},
        {"HOME": "/h", "XDG_DATA_HOME": "relative"},
        {"HOME": ""},
    ],
)
def test_front_and_settings_agree_about_home(env: dict[str, str]) -> None:
    assert Path(place.home(env)) == settings.default_home(env)


def test_every_setting_travels() -> None:
    names = {row.metadata["env"]: "x" for row in settings.rows()}
    assert environment.for_calls(names) == names
    own = {"OPENAI_API_KEY": "x", "GITHUB_TOKEN": "x", "https_proxy": "x", "HISTFILE": "x", "MY_KEY": "x"}
    assert set(environment.for_calls(own)) == set(own) - {"HISTFILE"}
    assert not set(environment.for_daemon({**own, "COUNSEL_TOKEN": "x"})) & {*own, "COUNSEL_TOKEN"}


async def test_a_client_whose_folder_is_gone_still_works(home: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "gone").mkdir()
    script = (
        f"import os, runpy; os.rmdir({str(folder)!r}); runpy.run_path({str(FRONT)!r}, run_name='__main__')"
    )
    # -P, as an installed counsel: Python 3.13.0 cannot import `socket` with a path that begins at a folder that is gone
    async with StdioClient(home, command=[sys.executable, "-P", "-c", script], cwd=folder) as client:
        await client.initialize()
        assert (await client.text("env HOME")).split("|")[1] == "/nowhere"


# A front that waits for no answers, and that says when only its last writes are left.
HASTY = """
import sys
from counsel.front import main
class Front(main.Front):
    def _last_writes(self):
        print("last", file=sys.stderr, flush=True)
        super()._last_writes()
main.ANSWER_GRACE = -1.0
main.Front = Front
sys.exit(main.main([]))
"""


def test_a_client_that_reads_late_gets_every_answer_although_it_has_closed_stdin(home: Path) -> None:
    count = 2000  # their answers are more than a pipe holds
    with subprocess.Popen(
        [sys.executable, "-c", HASTY],
        env={**os.environ, "COUNSEL_HOME": str(home), **SHORT_LIVED},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as front:
        assert front.stdin is not None
        assert front.stdout is not None
        assert front.stderr is not None
        front.stdin.write(b"no JSON\n" * count)
        front.stdin.close()
        assert front.stderr.readline() == b"last\n"
        assert len(front.stdout.readlines()) == count
        assert front.wait(30) == 0


class PipeStub:
    """A pipe that can be written so many times; then its reader reads no more."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.waits: list[float] = []

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        self.waits.append(milliseconds)
        self.times -= 1
        return [(1, select.POLLOUT)] if self.times >= 0 else []


@pytest.mark.parametrize(("times", "waits", "left"), [(2, 3, 1000), (3, 3, 0), (4, 3, 0), (0, 1, 3000)])
def test_a_reader_of_the_last_answers_has_ten_seconds_for_each_part(
    monkeypatch: pytest.MonkeyPatch, times: int, waits: int, left: int
) -> None:
    front = main.Front(None)
    pipe: Any = PipeStub(times)
    front.stdout, front.out = pipe, bytearray(3000)
    monkeypatch.setattr(front, "_write", lambda: front.out.__delitem__(slice(0, 1000)))
    front._last_writes()
    assert pipe.waits == [10_000] * waits
    assert len(front.out) == left


@pytest.mark.parametrize("says", ["nothing", "tools/list"])
def test_a_front_whose_reader_is_gone_ends_although_stdin_stays_open(home: Path, says: str) -> None:
    """Node.js gives its children sockets instead of pipes, and a socket reports a missing reader differently."""
    ours, theirs = socket.socketpair()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home), **SHORT_LIVED}
    with subprocess.Popen(
        [sys.executable, str(FRONT)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=theirs.fileno(),
        stderr=subprocess.PIPE,
    ) as front:
        theirs.close()
        assert front.stdin is not None
        assert front.stderr is not None
        front.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        front.stdin.flush()
        assert b'"id":1' in ours.recv(65536)
        ours.close()
        if says != "nothing":
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                front.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"%s"}\n' % says.encode())
                front.stdin.flush()
        assert front.wait(30) == 0
        assert front.stderr.read() == b""


def most_memory(pid: int) -> float:
    """The process's peak memory in MiB; 0 where the system does not report it."""
    if sys.platform != "linux":
        return 0
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.parametrize("place", ["first", "last"])
async def test_a_message_that_is_too_long_is_refused_and_not_kept(home: Path, place: str) -> None:
    """The id is before or after the parameters; the whole message is never in memory."""
    params = b'"params":{"name":"chat","arguments":{"prompt":"'
    begin = (
        b'{"jsonrpc":"2.0","id":"big","method":"tools/call",'
        if place == "first"
        else b'{"method":"tools/call",'
    )
    end = b'"}}}' if place == "first" else b'"}},"jsonrpc":"2.0","id":"big"}'
    async with StdioClient(home) as client:
        await client.initialize()
        answer = client.waiting["big"] = asyncio.get_running_loop().create_future()
        writer = client.stdin
        writer.write(begin + params)
        for _ in range(100):
            writer.write(b"x" * 2**20)
            await writer.drain()
        writer.write(end + b"\n")
        response = await asyncio.wait_for(answer, 30)
        assert response["error"]["data"] == {
            "size": 100 * 2**20 + len(begin + params + end),
            "limit": 64 * 2**20,
        }
        assert (await client.ask("ping")) == {}
        assert most_memory(client.process.pid) < 180


def test_ctrl_c_ends_it_with_130(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: main.Front) -> int:
        raise KeyboardInterrupt

    monkeypatch.setenv("COUNSEL_HOME", str(home))
    monkeypatch.setattr(main.Front, "run", interrupted)
    assert main.main([]) == 130
