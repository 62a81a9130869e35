"""What `ask` and `consensus` share: their options, the prompt from stdin, a job and its answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import click

from counsel import answer_notes, paths
from counsel.caller import Caller
from counsel.cli import completers, connect, user, wants_json
from counsel.cli.terminal import output, stopped, wording
from counsel.cli.terminal.live_output import LiveAnswer
from counsel.cli.terminal.numbers import Number
from counsel.errors import CounselError
from counsel.request_rules import is_name
from counsel.requests import Engine, Request, chain
from counsel.results import Accepted, Result
from counsel.types import EFFORTS

Decorated = Callable[..., object]
_STOP_SECONDS = 5  # for stopping a job and reading its status
LAST = completers.LAST

max_cost = click.option(
    "--max-cost",
    type=Number(min=0),
    metavar="USD",
    help="Spend at most this much on all calls together.",
)
quiet = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda _ctx, _param, value: output.set_quiet(value),
    help="Print the answer and nothing else; errors are still shown.",
)
_OPTIONS = (
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="PATH",
        help="Send this file, folder, PDF or quoted pattern ('src/**/*.py'); several may follow. "
        "FILE{10:50} sends lines 10 to 50 (of a PDF: pages).",
    ),
    click.option(
        "--allow-secret", is_flag=True, help="Send the files named with -f even if they look like secrets."
    ),
    click.option(
        "-i", "--image", "images", multiple=True, metavar="IMAGE", help="Send this image file or data URL."
    ),
    click.option(
        "-c",
        "--continue",
        "continuation_id",
        is_flag=False,
        flag_value=LAST,
        metavar="[ID]",
        shell_complete=completers.conversations,
        help="Continue the conversation whose id begins with ID; without ID, or with `last`: the newest of this folder. "
        "Any other name starts a new conversation.",
    ),
    click.option(
        "--system",
        metavar="TEXT|@FILE",
        help="System prompt, instead of counsel's own; @FILE reads it from a file.",
    ),
    click.option("--effort", type=click.Choice(EFFORTS), help="Reasoning effort."),
    click.option("--temperature", type=Number(0, 1), help="0 is focused, 1 is creative."),
    click.option("--verbosity", type=click.Choice(["low", "medium", "high"]), help="Length of the answer."),
    click.option("--web", is_flag=True, help="Let the model search the web."),
    click.option(
        "--tool",
        "tools",
        multiple=True,
        metavar="SERVER",
        shell_complete=completers.servers,
        help="Let the model use this MCP server of your agents, if COUNSEL_SHARED_TOOLS allows it.",
    ),
    max_cost,
    click.option(
        "--background", is_flag=True, help="Return immediately; `counsel jobs ID` shows the answer."
    ),
    click.option("--export", metavar="DIR", help="Write the conversation into a folder under DIR."),
    click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False),
        metavar="DIR",
        help="Resolve relative paths from this folder.",
    ),
    quiet,
)
_PATH_OPTIONS = {"-f": "-f", "--file": "-f", "-i": "-i", "--image": "-i"}


class QuestionCommand(click.Command):
    """Several paths may follow one `-f` or `-i`, as a shell writes them for an unquoted pattern."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, list(_with_repeated_options(args)))
        _read_prompt_after_continue(ctx.params)
        return rest


def _read_prompt_after_continue(params: dict[str, Any]) -> None:
    """`--continue "And why?"`: what cannot be a conversation's name is the prompt."""
    name = params.get("continuation_id")
    if name and params.get("prompt", "") is None and not is_name(name):
        params["prompt"], params["continuation_id"] = name, LAST


def _with_repeated_options(args: list[str]) -> Iterator[str]:
    """`-f a b QUESTION` as `-f a -f b QUESTION`: words after the first path are paths if they exist."""
    option, cwd = "", _folder(args)
    words = iter(args)
    for word in words:
        if word in _PATH_OPTIONS:
            option = _PATH_OPTIONS[word]
            yield word
            yield from itertools.islice(words, 1)
            continue
        if option and not word.startswith("-") and _names_path(word, cwd):
            yield option
        else:
            option = "-f" if word.startswith("--file=") else ""
        yield word


def _folder(args: list[str]) -> Path:
    folder = dict(itertools.pairwise(args)).get("--cwd")
    return paths.current_folder() / folder if folder else paths.current_folder()


def _names_path(word: str, cwd: Path) -> bool:
    from counsel.cli.questions import ask_files  # few questions come with files

    return ask_files.is_path(word, cwd)


def one_model(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """`gpt-5, opus`: tried one after another."""
    if not all(chain(value)):
        raise click.BadParameter("A model's name is empty. Separate names by commas: gpt-5,opus.")
    return value


def several_models(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`-m a,b -m c`. Without any: the user's own panel, or one that counsel chooses."""
    names = tuple(name.strip() for value in values for name in value.split(","))
    if not all(names):
        raise click.BadParameter("A model's name is empty. Separate names by commas: gpt-5,opus.")
    return names or ("auto",)


members = click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    callback=several_models,
    shell_complete=completers.members,
    help="Models, aliases, agents or @panels: -m a,b or -m a -m b. The same model may be named twice. "
    "Default: COUNSEL_CONSENSUS_MODELS, else COUNSEL_PANEL_SIZE models of different vendors.",
)


def options(command: Decorated) -> Decorated:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def prepare(values: dict[str, Any]) -> tuple[Caller, dict[str, Any]]:
    """The caller, and the fields of a request from the options above. Raises before anything is sent."""
    caller = user.caller(values["cwd"], export_roots(values))
    files: tuple[str, ...] = ()
    if values["files"] or values["images"]:
        from counsel.cli.questions import ask_files  # few questions come with files

        attachments = ask_files.attach(
            values["files"], values["images"], caller, allow_secret=values["allow_secret"]
        )
        ask_files.report(attachments.left_out, Path.cwd())
        caller, files = attachments.caller, attachments.files
    elif values["allow_secret"] and not (values["system"] or "").startswith("@"):
        raise click.UsageError("--allow-secret needs a file: add -f FILE.")
    system = values["system"]
    if system and system.startswith("@"):
        from counsel.cli.questions import ask_files

        system = ask_files.read_text(system[1:], caller, allow_secret=values["allow_secret"])
    effort = values["effort"] or caller.settings.default_effort or None
    fields = {**_common(values), "reasoning_effort": effort, "files": files, "system": system or None}
    if values["continuation_id"] is not None:
        from counsel.cli import ids  # few questions name a conversation

        fields["continuation_id"] = ids.continuation(values["continuation_id"], caller, quiet=wants_json())
    return caller, fields


def _common(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "images": tuple(values["images"]),
        "temperature": values["temperature"],
        "verbosity": values["verbosity"],
        "use_websearch": values["web"],
        "max_cost_usd": values["max_cost"],
        "tools": tuple(values["tools"]),
        "export": str(Path(values["export"]).absolute()) if values["export"] else False,
    }


def export_roots(values: dict[str, Any]) -> tuple[Path, ...]:
    """The folder of `--export`, created: a folder that a person names on the command line may be written to."""
    if not values["export"]:
        return ()
    folder = Path(values["export"]).absolute()
    with contextlib.suppress(OSError):  # the export itself reports it
        folder.mkdir(parents=True, exist_ok=True)
    return (folder,)


def full_prompt(prompt: str | None) -> str:
    """The prompt; stdin if it is `-` or missing; both, with stdin below the prompt as context."""
    stdin_text = _piped_text() if prompt != "-" else standard_input()
    if prompt in {None, "-"}:
        if not stdin_text or not stdin_text.strip():
            raise click.UsageError(
                'No prompt. Pass it as an argument (counsel ask "…") or on standard input.'
            )
        return stdin_text
    if not str(prompt).strip():  # the engine would see stdin and not the empty prompt
        raise click.UsageError("The prompt is empty.")
    return (
        f"{prompt}\n\n<stdin>\n{stdin_text.rstrip()}\n</stdin>"
        if stdin_text and stdin_text.strip()
        else str(prompt)
    )


def _piped_text() -> str | None:
    """Text that was piped or redirected in; None for a terminal, a closed stdin and /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return None
    if stat.S_ISFIFO(mode) and not select.select([sys.stdin], [], [], 1.0)[0]:
        output.message("reading standard input; close it (or add </dev/null) to continue")
    return standard_input()


def standard_input() -> str:
    """Read all of stdin. Raises if it is too large or endless."""
    from counsel import settings, size_limits  # few commands read stdin
    from counsel.engine.context.decoding import decode

    limit = settings.load().max_prompt_bytes
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        status = os.fstat(sys.stdin.fileno())
        raise size_limits.too_large(
            "Standard input", status.st_size if stat.S_ISREG(status.st_mode) else None, limit
        )
    return decode(data, "Standard input")[0]


async def submit(
    request: Request,
    caller: Caller,
    watch: Callable[[Engine, str], Awaitable[Result]],
    *,
    standalone: bool,
    background: bool,
    as_json: bool,
) -> Result | None:
    """Submit the request and return the result that `watch` displayed.

    None if JSON or a background job's id was printed instead.
    """
    async with connect.engine(caller, standalone=standalone) as engine:
        job_id = await engine.submit(request, caller, background=background)
        if background:
            _print_accepted(await engine.accepted(job_id), as_json=as_json)
            return None
        async with job(engine, job_id):
            if not as_json:
                return await watch(engine, job_id)
            from counsel.cli import documents

            output.document(documents.answer(await engine.wait(job_id)))
            return None


def _print_accepted(job: Accepted, *, as_json: bool) -> None:
    """Print an accepted background job: its id on stdout, what to do next on stderr."""
    from counsel.cli import documents, ids

    if as_json:
        output.document(documents.accepted(job))
        return
    output.line(job.job_id)
    name = ids.short(job.job_id)
    output.message(f"`counsel jobs {name} --follow` shows it; `counsel cancel {name}` stops it.")


@contextlib.asynccontextmanager
async def job(engine: Engine, job_id: str) -> AsyncIterator[str]:
    """Stop the job if this command is stopped. The last line then says which answers are kept."""
    try:
        yield job_id
    except (
        asyncio.CancelledError,
        KeyboardInterrupt,
        OSError,
    ) as error:  # OSError: the terminal or pipe is gone
        summary = "Stopped."
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_STOP_SECONDS):
                await engine.cancel(job_id)
                summary = stopped.summary(await engine.status(job_id))
        if isinstance(error, asyncio.CancelledError):
            output.message(summary)
            raise stopped.Stopped from error
        raise


async def print_answer(
    engine: Engine, job_id: str, *, stream: bool, plain: bool = False, live: bool = True
) -> Result:
    """Print the job's answer, live on a terminal, and return its result. With `live=False`: print it when complete."""
    answer = LiveAnswer(stream=stream, plain=plain, live=live)
    try:
        await answer.follow(engine.follow(job_id))
        result = await engine.wait(job_id)
    except CounselError as error:
        answer.fail(error.partial, job_id)
        raise
    except asyncio.CancelledError:
        answer.stop()
        raise
    answer.finish(result.content)
    return result


def footer(result: Result) -> str:
    from counsel.cli import ids

    return answer_notes.footer(result, "-c", ids.short)


def notes(result: Result) -> None:
    """Print what a person must know besides the answer."""
    for note in answer_notes.notes(result, was_live=True, names=wording.OPTIONS):
        output.message(wording.in_cli_words(note))
