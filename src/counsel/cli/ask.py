"""`counsel ask`: one question to one model, with live text."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from counsel.cli import ask_options, completers, connect, json_option, live_output, output
from counsel.requests import DEFAULT_MODEL, ChatRequest


@click.command(cls=ask_options.QuestionCommand)
@click.argument("prompt", required=False)
@click.option(
    "-m",
    "--model",
    default=DEFAULT_MODEL,
    callback=ask_options.one_model,
    shell_complete=completers.models,
    help="Model, alias, provider/model, or agent; default: the conversation's, else COUNSEL_DEFAULT_MODEL (auto).",
)
@ask_options.options
@click.option(
    "--media-resolution",
    type=click.Choice(["LOW", "MEDIUM", "HIGH", "UNSPECIFIED"], case_sensitive=False),
    help="Image resolution (Gemini 3).",
)
@live_output.plain_option
@live_output.stream_option
@connect.standalone_option
@json_option
def ask(
    prompt: str | None,
    model: str,
    media_resolution: str | None,
    plain: bool,
    stream: bool,
    standalone: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask one model or agent.

    PROMPT can also come from standard input. With both, standard input is sent as context:

        git diff | counsel ask "Is this safe?" -m gpt-5
    """
    if stream and (as_json or options["background"]):
        raise click.UsageError("--stream cannot be combined with --json or --background.")
    text = ask_options.full_prompt(prompt)
    caller, fields = ask_options.prepare(options)
    request = ChatRequest(
        prompt=text,
        model=model,
        media_resolution=f"MEDIA_RESOLUTION_{media_resolution.upper()}" if media_resolution else None,  # type: ignore[arg-type]
        **fields,
    )
    asking = ask_options.submit(
        request,
        caller,
        partial(ask_options.tell, stream=stream, plain=plain),
        standalone=standalone,
        background=options["background"],
        as_json=as_json,
    )
    if result := connect.run(asking):
        ask_options.notes(result)
        output.footer(ask_options.footer(result))
