"""The command `counsel`. The stdio front must start in milliseconds, so it is reached before click is imported."""

import gc  # built in, and the next two are loaded already: no import up to here looks into the current folder
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _forget_current_folder() -> None:
    """Import nothing from the folder that we happen to be started in.

    `python -m` puts it first on the module path (unless with -P), and so does a relative or empty entry of PYTHONPATH.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib is not loaded yet
    except OSError:
        return  # it is gone
    if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]
    if named := os.environ.get("PYTHONPATH"):
        relative = {os.path.abspath(one) for one in named.split(os.pathsep) if not one.startswith("/")}  # noqa: PTH100
        sys.path[:] = [one for one in sys.path if one not in relative]


_forget_current_folder()


def main(argv: "Sequence[str] | None" = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _complete_streams()
    gc.set_threshold(50_000)  # imports make no garbage; to look for it among them costs a command some 10 ms
    if arguments[:1] == ["stdio"]:
        from counsel.front import main as stdio

        sys.exit(stdio.main(arguments[1:]))
    from counsel import cli

    _leave(cli.run(arguments))


def _complete_streams() -> None:
    """A stream that was closed (`>&-`) is /dev/null, so that no file of ours gets its number; and a terminal that is
    not UTF-8 shows what it cannot spell as \\u2026, instead of losing an answer."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")


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
