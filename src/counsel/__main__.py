"""The `counsel` command. The stdio front must start in milliseconds, so it runs before click is imported."""

import gc  # built in; the next two are already loaded: no import so far searches the current folder
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _forget_current_folder() -> None:
    """Import nothing from the current folder.

    `python -m` puts it first on the module path (unless with -P), and so does a relative or empty entry of PYTHONPATH.
    """
    try:
        current_folder = os.getcwd()  # pathlib is not loaded yet
    except OSError:
        return  # the current folder was deleted
    if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [current_folder]:
        del sys.path[0]
    if entries := os.environ.get("PYTHONPATH"):
        relative = {os.path.abspath(path) for path in entries.split(os.pathsep) if not path.startswith("/")}
        sys.path[:] = [path for path in sys.path if path not in relative]


_forget_current_folder()


def main(argv: "Sequence[str] | None" = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _repair_streams()
    gc.set_threshold(50_000)  # imports create no garbage; collecting during them costs a command about 10 ms
    if arguments[:1] == ["stdio"]:
        from counsel.front import main as stdio

        sys.exit(stdio.main(arguments[1:]))
    from counsel import cli

    _exit(cli.run(arguments))


def _repair_streams() -> None:
    """Open /dev/null for a closed stream (`>&-`), so that no file of counsel's gets its number. On a terminal without
    UTF-8, print other characters as \\u2026 instead of failing to print an answer."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open until the process ends
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")


def _exit(code: int) -> None:
    """Exit without deallocation, which costs up to 40 ms after a command has read a large ~/.claude.json."""
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
