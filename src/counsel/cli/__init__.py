"""The command line: a table of commands, and the one place where errors become messages and exit codes.

A command's module is imported when the command runs, not for `--help`: start-up time is what users notice first.
Exit codes: 0 done, 1 the work failed, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from counsel import __version__, run_paths
from counsel.cli.terminal import output
from counsel.errors import ConfigInvalid, CounselError, Internal, InvalidArgument
from counsel.records import Record

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandRow(Record):
    target: str  # "module:attribute" of a click command
    summary: str  # its line in `counsel --help`


# A new command is a row here and its own module.
COMMANDS: dict[str, CommandRow] = {
    "ask": CommandRow("counsel.cli.questions.ask:ask", "Ask one model or agent."),
    "chat": CommandRow("counsel.cli.questions.chat:chat", "Chat with a model, message by message."),
    "consensus": CommandRow(
        "counsel.cli.questions.consensus:consensus", "Ask several models; each then refines its answer."
    ),
    "review": CommandRow(
        "counsel.cli.questions.review:review",
        "Have several models review a change and check each other's findings.",
    ),
    "jobs": CommandRow("counsel.cli.jobs:jobs", "List the newest jobs, or show and follow one."),
    "cancel": CommandRow("counsel.cli.jobs:cancel", "Stop a job and its calls."),
    "conversations": CommandRow(
        "counsel.cli.conversations:conversations", "List, show, search, export or delete conversations."
    ),
    "usage": CommandRow("counsel.cli.usage:usage", "Show calls, tokens, cost and response times."),
    "setup": CommandRow(
        "counsel.cli.setup.command:setup", "Register counsel with the coding agents on this machine."
    ),
    "models": CommandRow(
        "counsel.cli.models:models", "List models: availability, context window, price, aliases."
    ),
    "agents": CommandRow("counsel.cli.agents:agents", "List coding agents: version, login, servers, skills."),
    "images": CommandRow("counsel.cli.images:images", "Store images in the project for agents to read."),
    "config": CommandRow("counsel.cli.config:config", "Show and change settings: get, set, list, edit."),
    "keys": CommandRow("counsel.cli.keys:keys", "Store, list and remove the keys of providers."),
    "login": CommandRow("counsel.cli.team.login:login", "Join a team's server, or show whether it answers."),
    "logout": CommandRow(
        "counsel.cli.team.login:logout", "Leave the team; use this machine's own keys again."
    ),
    "doctor": CommandRow(
        "counsel.cli.doctor:doctor", "Check keys, providers, files and versions; suggest fixes."
    ),
    "skills": CommandRow("counsel.cli.skills:skills", "List, inspect and share the agents' skills."),
    "servers": CommandRow(
        "counsel.cli.servers.commands:servers",
        "Manage the agents' MCP servers: list, add, change, check, undo.",
    ),
    "demo": CommandRow(
        "counsel.cli.demo:demo", "Try counsel without a key, with a tiny model on this machine."
    ),
    "console": CommandRow("counsel.cli.console:console", "Open the console: counsel in your browser."),
    "serve": CommandRow("counsel.cli.serve:serve", "Serve MCP, the console and the model APIs over HTTP."),
    "worker": CommandRow("counsel.cli.team.worker:worker", "Run a team's jobs, beside its servers."),
    "daemon": CommandRow("counsel.cli.daemon:daemon", "Show or stop the daemon."),
    "database": CommandRow(
        "counsel.cli.team.database:database", "Prepare a PostgreSQL database that several servers share."
    ),
    "people": CommandRow(
        "counsel.cli.team.people:people", "Manage the people of a team's server and their tokens."
    ),
    "ask-service": CommandRow(
        "counsel.cli.ask_service:ask_service",
        "Serve a session's askModel socket, for programs that host agents.",
    ),
    "bench": CommandRow(
        "counsel.cli.bench:bench", "Compare ways of asking on your own models and questions."
    ),
    "completion": CommandRow(
        "counsel.cli.completion:completion", "Print a script that completes commands in your shell."
    ),
    "stdio": CommandRow("counsel.cli.stdio:stdio", "Serve MCP on stdin and stdout (agents start this)."),
}


COMPLETION_VARIABLE = "_COUNSEL_COMPLETE"  # the shell sets it to ask for completions


class State:
    """What `run` needs to know after a command has failed."""

    json = False
    help = False  # the command line only asks for help


class LazyGroup(click.Group):
    """A group whose commands are rows of a table, imported when they run."""

    def __init__(self, *args: Any, rows: dict[str, CommandRow] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows = rows if rows is not None else {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        return list(self.rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click passes it
        if cmd_name not in self.rows:
            return None
        module, _, attribute = self.rows[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.rows:
            import difflib  # only a mistyped command needs it

            matches = difflib.get_close_matches(args[0].lower(), self.rows, n=1)
            if matches:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {matches[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table: click would import every command for its help."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=row.summary)
            for name, row in self.rows.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click passes it
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.summary) for name, row in self.rows.items()])


@click.group(
    cls=LazyGroup,
    rows=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="counsel")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """One switchboard for AI models and coding agents."""
    if ctx.invoked_subcommand == "doctor" or ctx.ensure_object(State).help:
        return  # doctor reports the problem among its findings
    if problem := run_paths.home_problem(os.environ):
        raise ConfigInvalid(problem, hint=run_paths.HOME_HINT)


Decorated = TypeVar("Decorated", bound=Callable[..., object])


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    ctx.ensure_object(State).json |= value
    return value


def json_option(command: Decorated) -> Decorated:
    """`--json`, passed to the command as `as_json`. Errors are then JSON documents on stdout, too."""
    summary = "Print one JSON document on stdout and nothing else."
    return click.option("--json", "as_json", is_flag=True, callback=_note_json, help=summary)(command)


def wants_json() -> bool:
    """Whether the current command was called with `--json`."""
    context = click.get_current_context(silent=True)
    state = context.find_object(State) if context else None
    return bool(state and state.json)


class ListingGroup(click.Group):
    """A group that lists without a verb: `counsel servers --json` is `counsel servers list --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_verb = args and (not args[0].startswith("-") or args[0] in self.get_help_option_names(ctx))
        if not is_verb and not ctx.resilient_parsing:  # completion offers the verbs
            args = ["list", *args]
        return super().parse_args(ctx, args)


def run(argv: Sequence[str]) -> int:
    """Run one command line and return the exit code. Every outcome of a command ends here."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "counsel", COMPLETION_VARIABLE, instruction)
    state = State()
    state.help = not {"-h", "--help"}.isdisjoint(argv)
    output.set_quiet(False)
    try:
        # `cli.main` would exit with 1 when the reader closes the pipe, and raise its own exception for Ctrl-C
        with cli.make_context("counsel", list(argv), obj=state) as ctx:
            cli.invoke(ctx)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place that can report an error
        output.set_quiet(False)
        state.json |= isinstance(error, click.UsageError | ConfigInvalid) and _wants_json(argv)
        return _exit_code(error, state)
    return 0


def _wants_json(argv: Sequence[str]) -> bool:
    """Whether a command line that could not be parsed contains `--json`."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in options


def _exit_code(error: BaseException, state: State) -> int:
    code = 1
    match error:
        case click.exceptions.Exit():  # --help, --version, ctx.exit(code)
            code = error.exit_code
        case click.ClickException():  # bad usage, or a file that click could not open
            error.show(sys.stderr)
            if state.json:
                fields = getattr(error, "fields", {})
                output.document(InvalidArgument(error.format_message(), **fields).as_dict())
            code = error.exit_code
        case KeyboardInterrupt() | click.Abort():
            output.message("interrupted")
            code = 130
        case BrokenPipeError():  # the reader closed the pipe (`counsel models | head`): not an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError(errno=errno.ENOSPC):
            output.message("error: Cannot write the answer: the disk is full.")
        case CounselError():
            fail(error, as_json=state.json)
        case _:
            _fail_internally(error, as_json=state.json)
    return code


def _fail_internally(error: BaseException, *, as_json: bool) -> None:
    if os.environ.get("LOG_LEVEL", "").lower() == "debug":
        raise error
    text = f"Internal error: {type(error).__name__}: {error}"
    fail(
        Internal(
            text, hint="This is a bug in counsel. LOG_LEVEL=debug shows the traceback; please report it."
        ),
        as_json=as_json,
    )


def fail(error: CounselError, *, as_json: bool = False) -> None:
    from counsel.cli.terminal.wording import in_cli_words

    if as_json:
        from counsel.cli import documents

        output.document(documents.error(error))
    output.message(f"error: {in_cli_words(error.message)}")
    if error.tried:
        columns = ("provider", "model", "what went wrong", "what to do")
        rows = [
            (entry["provider"], ", ".join(entry["models"]), entry["error"], entry["hint"])
            for entry in error.tried
        ]
        output.message_table(columns, rows)
    if error.hint:
        output.message(f"  {in_cli_words(error.hint)}")
