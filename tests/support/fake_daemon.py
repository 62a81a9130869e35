"""The daemon with an engine in memory, for tests of the socket and the front.

Prompts starting with `later FILE` are answered when FILE appears, by whichever daemon has them by then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]


async def open_engine(_home: Path) -> Any:
    from support.fake_engine import FakeEngine, Job  # after the fork, as the real one

    class Engine(FakeEngine):
        def _run(self, job: Job) -> None:
            word, _, rest = job.request.prompt.partition(" ")
            if word == "later":
                job.task = asyncio.ensure_future(self._when(Path(rest), job, f"key {job.key}"))
            elif word == "env":
                value = job.caller.env.get(rest, "")
                job.end(self.result(job, f"{value}|{job.caller.cwd}|{job.caller.client}|{job.caller.agent}"))
            else:
                super()._run(job)

    return Engine()


def fail_at_first(counter: Path) -> None:
    """COUNSEL_TEST_FAILS names a file with a line for each start that fails: with that text, or by SIGKILL."""
    lines = counter.read_text().splitlines()
    if not lines:
        return
    counter.write_text("".join(f"{line}\n" for line in lines[1:]))
    if lines[0] == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(lines[0])


if __name__ == "__main__":
    if failing := os.environ.get("COUNSEL_TEST_FAILS"):
        fail_at_first(Path(failing))
    import counsel
    from counsel.daemon import connection, main, server

    vars(connection)["__version__"] = os.environ.get("COUNSEL_TEST_VERSION", counsel.__version__)
    vars(server)["default_engine"] = open_engine
    sys.exit(main.main(sys.argv[1:]))
