"""The frame of the command line: a table of commands, and one place where errors become words and exit codes.

A command's module is imported when it is called, and not for `--help`: start-up time is what a user feels first.
Exit codes: 0 done, 1 the work failed, 2 bad usage, 130 interrupted.
"""

import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from counsel import __version__
from counsel.cli import output
from counsel.errors import CounselError, Internal, InvalidArgument
from counsel.records import Record


class Row(Record):
    target: str  # "module:attribute" of a click command
    words: str  # its line in `counsel --help`


# A new command is a row here and a module of its own.
COMMANDS: dict[str, Row] = {
    "ask": Row("counsel.cli.ask:ask", "Ask one model or agent."),
    "consensus": Row("counsel.cli.consensus:consensus", "Ask several models; each then refines its answer."),
    "jobs": Row("counsel.cli.jobs:jobs", "List the newest jobs, or show and follow one."),
    "cancel": Row("counsel.cli.jobs:cancel", "Stop a job and its calls."),
    "conversations": Row(
        "counsel.cli.conversations:conversations", "List, show, search, export or delete conversations."
    ),
    "usage": Row("counsel.cli.usage:usage", "Show calls, tokens, cost and response times."),
    "setup": Row("counsel.cli.setup:setup", "Register counsel with the coding agents on this machine."),
    "models": Row("counsel.cli.models:models", "List models: availability, context window, price, aliases."),
    "agents": Row("counsel.cli.agents:agents", "List coding agents: version, login, servers, skills."),
    "images": Row("counsel.cli.images:images", "Store images in the project for agents to read."),
    "doctor": Row("counsel.cli.doctor:doctor", "Check keys, providers, files and versions; suggest fixes."),
    "skills": Row("counsel.cli.skills:skills", "List, inspect and share the agents' skills."),
    "servers": Row(
        "counsel.cli.servers:servers", "Manage the agents' MCP servers: list, add, change, check, undo."
    ),
    "demo": Row("counsel.cli.demo:demo", "Try counsel without a key, with a tiny model on this machine."),
    "serve": Row("counsel.cli.serve:serve", "Serve MCP over HTTP, at /mcp."),
    "daemon": Row("counsel.cli.daemon:daemon", "Show or stop the daemon."),
    "ask-service": Row(
        "counsel.cli.ask_service:ask_service",
        "Serve a session's askModel socket, for programs that host agents.",
    ),
    "stdio": Row("counsel.cli.stdio:stdio", "Serve MCP on stdin and stdout (agents start this)."),
}


COMPLETING = "_COUNSEL_COMPLETE"  # set by the shell when it asks how a command line may go on


class State:
    """What the frame must know after a command has failed."""

    json = False


class Lazy(click.Group):
    """A group whose commands are rows: `counsel servers …` uses it too, with a table of its own."""

    def __init__(self, *args: Any, rows: dict[str, Row] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows = rows if rows is not None else {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.rows:
            return None
        module, _, attribute = self.rows[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.rows:
            import difflib  # only a mistyped command needs it

            near = difflib.get_close_matches(args[0].lower(), self.rows, n=1)
            if near:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.words) for name, row in self.rows.items()])


@click.group(
    cls=Lazy,
    rows=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="counsel")
def cli() -> None:
    """One switchboard for AI models and coding agents."""


Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    ctx.ensure_object(State).json |= value
    return value


def json_option(command: Decorated) -> Decorated:
    """`--json`, given to the command as `as_json`; a failure is then a JSON document on stdout, too."""
    words = "Print one JSON document on stdout and nothing else."
    return click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_note_json, help=words)(
        command
    )


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code. Every way out of a command ends here."""
    if wish := os.environ.get(COMPLETING):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "counsel", COMPLETING, wish)
    state = State()
    try:
        # not `cli.main`: it turns a gone reader into exit 1 and Ctrl-C into an exception of its own
        with cli.make_context("counsel", list(argv), obj=state) as ctx:
            cli.invoke(ctx)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place where one can become words
        state.json |= isinstance(error, click.UsageError) and _wants_json(argv)
        return _ended(error, state)
    return 0


def _wants_json(argv: Sequence[str]) -> bool:
    """Of a line that could not be read to its end: an option that nobody knows, say."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in options


def _ended(error: BaseException, state: State) -> int:
    code = 1
    match error:
        case click.exceptions.Exit():  # --help, --version, ctx.exit(code)
            code = error.exit_code
        case click.ClickException():  # bad usage, or a file that click could not open
            error.show(sys.stderr)
            if state.json:
                output.document(InvalidArgument(error.format_message()).as_dict())
            code = error.exit_code
        case KeyboardInterrupt() | click.Abort():
            output.words("interrupted")
            code = 130
        case BrokenPipeError():  # the reader has gone (`counsel models | head`): that is no failure of ours
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError(errno=errno.ENOSPC):
            output.words("error: Cannot write the answer: the disk is full.")
        case CounselError():
            fail(error, as_json=state.json)
        case _:
            _fail_by_defect(error, as_json=state.json)
    return code


def _fail_by_defect(error: BaseException, *, as_json: bool) -> None:
    if os.environ.get("LOG_LEVEL", "").lower() == "debug":
        raise error
    words = f"Internal error: {type(error).__name__}: {error}"
    fail(
        Internal(
            words, hint="This is a bug in counsel. LOG_LEVEL=debug shows the traceback; please report it."
        ),
        as_json=as_json,
    )


def fail(error: CounselError, *, as_json: bool = False) -> None:
    if as_json:
        output.document(error.as_dict())
    output.words(f"error: {error.message}")
    if error.hint:
        output.words(f"  {error.hint}")
