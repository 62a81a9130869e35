"""The command `counsel`. The stdio front must start in milliseconds, so it is reached before click is imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["stdio"]:
        from counsel.doors import stdio

        sys.exit(stdio.main(arguments[1:]))
    from counsel import cli

    sys.exit(cli.run(arguments))


if __name__ == "__main__":
    main()
