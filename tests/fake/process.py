"""The fake in a separate process, for tests with real CLIs and daemons. Standard library only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self


class FakeHost:
    """A process in which fakes start and stop, each on its own port. It takes half a second of CPU to start, for
    aiohttp; a fake takes milliseconds. It ends with its stdin, so it ends with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        process.wait(10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def start(self) -> dict[str, Any]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = self._run()
        return dict(self._command("start"))

    def stop(self, port: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._command(f"stop {port}")

    def _run(self) -> subprocess.Popen[str]:
        folder = str(Path(__file__).resolve().parent.parent)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
        return subprocess.Popen(
            [sys.executable, "-m", "fake", "--host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            cwd="/",  # outlives the folder of a test
        )

    def _command(self, line: str) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())


class FakeProcess:
    """`with FakeProcess() as fake:` then `fake.url`, `fake.v1`, `fake.script(...)`, `fake.wait_for(...)`."""

    def __init__(self, host: FakeHost | None = None) -> None:
        self.url = ""
        self.v1 = ""
        self._port = 0
        self._host = host or FakeHost()
        self._shared = host is not None

    def __enter__(self) -> Self:
        about = self._host.start()
        self.url, self.v1, self._port = about["url"], about["v1"], about["port"]
        return self

    def __exit__(self, *_: object) -> None:
        if self._shared:
            self._host.stop(self._port)
        else:
            self._host.close()

    def script(self, **fields: Any) -> None:
        """Behaviour fields, and times/vendor/model/path/contains."""
        self._post("script", fields)

    def set(self, **fields: Any) -> None:
        """models, keys, default (a behaviour's fields)."""
        self._post("set", fields)

    def open_gate(self, name: str) -> None:
        self._post("gate", {"name": name})

    def reset(self) -> None:
        self._post("reset", {})

    def wait_for(self, *, timeout: float = 60.0, **fields: Any) -> list[dict[str, Any]]:
        """Requests that match vendor/model/path/contains/state/deltas, once there are `count`."""
        return list(self._post("wait", {**fields, "timeout": timeout}, timeout + 5))

    @property
    def state(self) -> dict[str, int]:
        return dict(self._post("state", {}))

    @property
    def requests(self) -> list[dict[str, Any]]:
        return list(self._post("requests", {}))

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [
            request for request in self.requests if request["vendor"] not in {"models", "tokens", "other"}
        ]

    def _post(self, verb: str, fields: dict[str, Any], wait: float = 15.0) -> Any:
        request = urllib.request.Request(
            f"{self.url}/_fake/{verb}", json.dumps(fields).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                request, timeout=wait
            ) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                message = json.load(error)["error"]
            raise (TimeoutError if error.code == 408 else ValueError)(message) from None
