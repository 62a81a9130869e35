"""The command `counsel`. The stdio front must start in milliseconds, so it is reached before click is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["stdio"]:
        sys.exit(import_module("counsel.doors.stdio").main(arguments[1:]))
    sys.exit(import_module("counsel.cli").run(arguments))


if __name__ == "__main__":
    main()
