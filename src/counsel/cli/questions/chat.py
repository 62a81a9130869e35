"""`counsel chat`: one conversation, message by message."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from counsel import amounts
from counsel.caller import Caller
from counsel.cli import completers, connect, fail, ids, user
from counsel.cli.questions import ask_options
from counsel.cli.questions.message_input import MessageInput, end_line
from counsel.cli.terminal import live_output, output
from counsel.cli.terminal.stopped import Stopped
from counsel.errors import CounselError
from counsel.requests import DEFAULT_MODEL, ChatRequest, Engine, chain
from counsel.results import Result
from counsel.text import counted

HELP = """\
/model [NAME]  show or change the model
/file PATH…    send these files with the next message; without PATH: send none
/cost          what this chat has cost
/new           start a new conversation
/exit          leave (or Ctrl-D)
A line that ends with \\ continues on the next one.
\"\"\" starts and ends a message of several lines.
// starts a message that begins with /.
Ctrl-C stops an answer."""


@click.command()
@click.option(
    "-m",
    "--model",
    default=DEFAULT_MODEL,
    callback=ask_options.one_model,
    shell_complete=completers.models,
    help="Model, alias, provider/model, or agent; default: the conversation's, else COUNSEL_DEFAULT_MODEL (auto).",
)
@click.option(
    "-c",
    "--continue",
    "conversation",
    metavar="ID",
    shell_complete=completers.conversations,
    help="Continue the conversation whose id begins with ID, or `last`. Any other name starts a new conversation.",
)
@live_output.plain_option
@connect.standalone_option
def chat(model: str, conversation: str | None, plain: bool, standalone: bool) -> None:
    """Chat with a model: one conversation, message by message.

    /help lists the commands: /model, /file, /cost, /new, /exit. Ctrl-C stops an answer, Ctrl-D leaves.
    Without a terminal, each line of standard input is a message.
    """
    caller = user.caller()
    _check_model(model, caller)
    name = ids.continuation(conversation, caller) if conversation else None
    messages = MessageInput(caller.settings.home / "chat_history")
    with connect.Loop() as loop:
        engine = loop.enter(connect.engine(caller, standalone=standalone))
        Chat(loop, engine, caller, messages, model, name, plain=plain).run()


class Chat:
    def __init__(
        self,
        loop: connect.Loop,
        engine: Engine,
        caller: Caller,
        messages: MessageInput,
        model: str,
        conversation: str | None,
        *,
        plain: bool,
    ) -> None:
        self._loop, self._engine, self._caller, self._messages = loop, engine, caller, messages
        self._model, self._conversation, self._plain = model, conversation, plain
        self._files: list[str] = []  # for the next message
        self._results: list[Result] = []
        self._commands: dict[str, Callable[[str], None]] = {
            "model": self._change_model,
            "file": self._add_files,
            "cost": self._show_cost,
            "new": self._start_new,
            "help": lambda _: output.message(HELP),
        }

    def run(self) -> None:
        if self._messages.interactive:
            model = "" if self._model == DEFAULT_MODEL else f" with {self._model}"
            output.message(f"Chat{model}. /help lists commands, Ctrl-D leaves.")
        try:
            while (message := self._next()) is not None:
                self._handle(message.strip())
        finally:
            self._print_continue_hint()

    def _next(self) -> str | None:
        while True:
            try:
                message = self._messages.read()
            except KeyboardInterrupt:  # discards the line
                end_line()
                continue
            if message is None:
                if self._messages.interactive:
                    end_line()
                return None
            if message.strip() in {"/exit", "/quit"}:
                return None
            if message.strip():
                return message

    def _handle(self, message: str) -> None:
        try:
            if message.startswith("/") and not message.startswith("//"):
                self._command(message)
            else:
                self._ask(message.removeprefix("/") if message.startswith("//") else message)
        except (CounselError, click.UsageError) as error:
            _report(error)

    def _command(self, message: str) -> None:
        name, _, argument = message[1:].partition(" ")
        if name not in self._commands:
            output.message(
                f"There is no command /{name}. /help lists them; // sends a message that starts with /."
            )
            return
        self._commands[name](argument.strip())

    def _ask(self, message: str) -> None:
        caller, files = self._attach(self._files)
        effort: Any = caller.settings.default_effort or None
        request = ChatRequest(
            prompt=message,
            model=self._model,
            files=files,
            continuation_id=self._conversation,
            reasoning_effort=effort,
        )
        try:
            result = self._loop.run(self._turn(request, caller))
        except Stopped:
            return
        self._files = []
        self._results.append(result)
        self._conversation = result.continuation.id
        ask_options.notes(result)
        output.footer(ask_options.footer(replace(result, continuation=replace(result.continuation, id=""))))
        if self._messages.interactive:
            output.message("")

    async def _turn(self, request: ChatRequest, caller: Caller) -> Result:
        job_id = await self._engine.submit(request, caller)
        async with ask_options.job(self._engine, job_id):
            return await ask_options.print_answer(self._engine, job_id, stream=False, plain=self._plain)

    def _attach(self, names: list[str]) -> tuple[Caller, tuple[str, ...]]:
        if not names:
            return self._caller, ()
        from counsel.cli.questions import ask_files  # few messages come with files

        attachments = ask_files.attach(names, (), self._caller, allow_secret=False)
        ask_files.report(attachments.left_out, Path.cwd())
        return attachments.caller, attachments.files

    # ── commands ──

    def _change_model(self, name: str) -> None:
        if name:
            _check_model(name, self._caller)
            self._model = name
        label = "the conversation's, else the default" if self._model == DEFAULT_MODEL else self._model
        output.message(f"Model: {label}")

    def _add_files(self, argument: str) -> None:
        from counsel.cli.questions import ask_files

        try:
            names = shlex.split(argument)
        except ValueError as error:  # an unclosed quote
            raise click.UsageError(f"{error}.") from None
        for name in names:
            if not ask_files.is_path(name, Path.cwd()) and not set(name) & set("*?["):
                raise click.UsageError(f"There is no file {name!r}.")
        _, files = self._attach([*self._files, *names])  # raises if one cannot be sent
        self._files = [*self._files, *names] if names else []
        output.message(f"{counted(len(files) if names else 0, 'file')} with the next message")

    def _show_cost(self, _: str) -> None:
        costs = [result.metadata.cost_usd for result in self._results]
        prices = [cost for cost in costs if cost is not None]
        total = amounts.dollars(sum(prices), complete=len(prices) == len(costs))
        output.message(f"{counted(len(costs), 'answer')}: {total if costs else '$0'}")

    def _start_new(self, _: str) -> None:
        self._conversation = None
        output.message("The next message starts a new conversation.")

    def _print_continue_hint(self) -> None:
        if self._conversation:
            output.message(f"Continue with: counsel chat -c {ids.short(self._conversation)}")


def _check_model(name: str, caller: Caller) -> None:
    """Raise for a model that would refuse the next message: a mistyped name, a provider without a key."""
    if "," in name:
        for entry in chain(name):
            _check_known(entry, caller)
        return
    if name.strip().lower() in {DEFAULT_MODEL, "auto"}:
        return
    from counsel.agents import failures, registry
    from counsel.models.catalog import Catalog

    agent = registry.resolve(name)
    if agent is None:
        Catalog.load(caller.settings).resolve(name)
    elif agent.probe(caller).path is None:
        raise failures.not_installed(agent.agent)


def _check_known(name: str, caller: Caller) -> None:
    """Raise for an unknown name in a chain. Whether it has a key is checked when its turn comes."""
    from counsel.agents import registry
    from counsel.models.catalog import Catalog

    if name.lower() != "auto" and registry.resolve(name) is None:
        Catalog.load(caller.settings).lookup(name)


def _report(error: CounselError | click.UsageError) -> None:
    """Print an error; the chat continues."""
    if isinstance(error, CounselError):
        fail(error)
    else:
        output.message(f"error: {error.format_message()}")
