"""The process of the embedded model: `python -m counsel.models.embedded_worker HOME`.

Downloads the model unless it is present, serves it, and ends with the process that started it: when stdin is closed,
for whatever reason, it kills itself and the installer. On stdout it reports one JSON object: `environment` (the
variables with which a caller reaches the model), or `error`. It is a separate process because a crash of the runtime,
which is not ours, ends only this one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from counsel.errors import CounselError
from counsel.models import embedded


def main(home: str) -> None:
    """The parent gives it a session of its own, so its process group is itself and the installer."""
    watcher = threading.Thread(target=_end_with_parent, daemon=True)
    watcher.start()
    try:
        embedded.fetch(Path(home))
        with embedded.LocalModel(Path(home)) as model:
            _report({"environment": model.environment})
            watcher.join()
    except CounselError as error:
        _report({"error": error.as_dict()})


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


def _report(document: dict[str, object]) -> None:
    print(json.dumps(document), flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main(sys.argv[1])
