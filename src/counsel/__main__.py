"""The command `counsel`. The stdio front must start in milliseconds, so it is reached before click is imported."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["stdio"]:
        from counsel.doors import stdio

        sys.exit(stdio.main(arguments[1:]))
    gc.set_threshold(
        50_000
    )  # imports make no garbage; to look for it among them costs every start some 10 ms
    from counsel import cli

    _leave(cli.run(arguments))


def _leave(code: int) -> None:
    """End at once: to take apart what a command has read costs up to 40 ms (a large ~/.claude.json), for nothing."""
    if logging := sys.modules.get("logging"):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader has gone, or the stream was closed
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    main()
