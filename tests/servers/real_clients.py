"""Ask the real clients which servers they see."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.client_programs import environment, program


def ask(home: Path, cwd: Path, *args: str, **more: str) -> str:
    """Return the output of a client's command; fail the test if it fails."""
    command = [program(args[0]), *args[1:]]
    process = subprocess.run(
        command,
        cwd=cwd,
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout if "--json" in args else process.stdout + process.stderr


class AppServer:
    """`codex app-server`: JSON-RPC, one message per line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.number = 0

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        self.number += 1
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"id": self.number, "method": method, "params": params}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer["result"]
        raise AssertionError("the app-server ended")


@contextmanager
def app_server(home: Path, cwd: Path) -> Iterator[AppServer]:
    with subprocess.Popen(
        [program("codex"), "app-server"],
        cwd=cwd,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            server = AppServer(process)
            server.call("initialize", {"clientInfo": {"name": "counsel-tests", "title": "t", "version": "1"}})
            yield server
        finally:
            process.kill()
