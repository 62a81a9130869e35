"""`counsel ask`: one question to one model, with live text."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from counsel.cli import completers, connect, json_option
from counsel.cli.questions import ask_options
from counsel.cli.terminal import live_output, output
from counsel.errors import InvalidArgument
from counsel.requests import DEFAULT_MODEL, ChatRequest


@click.command(cls=ask_options.QuestionCommand)
@click.argument("prompt", required=False)
@click.option(
    "-m",
    "--model",
    default=DEFAULT_MODEL,
    callback=ask_options.one_model,
    shell_complete=completers.models,
    help="Model, alias, provider/model, or agent; 'gpt-5, opus' asks the next if one fails. "
    "Default: the conversation's, else COUNSEL_DEFAULT_MODEL (auto).",
)
@ask_options.options
@click.option(
    "--media-resolution",
    type=click.Choice(["LOW", "MEDIUM", "HIGH", "UNSPECIFIED"], case_sensitive=False),
    help="Image resolution (Gemini 3).",
)
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=False),
    metavar="FILE",
    help="Answer with JSON that matches the JSON Schema in this file. The JSON is checked; nothing else is printed.",
)
@live_output.plain_option
@live_output.stream_option
@connect.standalone_option
@json_option
def ask(
    prompt: str | None,
    model: str,
    media_resolution: str | None,
    schema_file: str | None,
    plain: bool,
    stream: bool,
    standalone: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask one model or agent.

    PROMPT can also come from standard input. With both, standard input is sent as context:

        git diff | counsel ask "Is this safe?" -m gpt-latest
    """
    if stream and (as_json or options["background"]):
        raise click.UsageError("--stream cannot be combined with --json or --background.")
    if stream and schema_file:
        raise click.UsageError("--stream cannot be combined with --schema: the answer is checked first.")
    schema = read_schema(schema_file) if schema_file else None
    text = ask_options.full_prompt(prompt)
    caller, fields = ask_options.prepare(options)
    request = ChatRequest(
        prompt=text,
        model=model,
        schema=schema,
        media_resolution=f"MEDIA_RESOLUTION_{media_resolution.upper()}" if media_resolution else None,  # type: ignore[arg-type]
        **fields,
    )
    answer = ask_options.submit(
        request,
        caller,
        partial(
            ask_options.print_answer, stream=stream, plain=plain or schema is not None, live=schema is None
        ),
        standalone=standalone,
        background=options["background"],
        as_json=as_json,
    )
    if result := connect.run(answer):
        ask_options.notes(result)
        output.footer(ask_options.footer(result))


def read_schema(file: str) -> dict[str, object]:
    """Read the schema in a file. Raises before anything is sent."""
    import json

    from counsel.engine.consult import structured

    try:
        schema = json.loads(Path(file).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"{file} is not JSON: {error}.",
            hint="Nothing was sent. Pass a file with a JSON Schema.",
            file=file,
        ) from None
    if not isinstance(schema, dict):
        raise InvalidArgument(
            f"{file} is not a JSON Schema: it must be an object.", hint="Nothing was sent.", file=file
        )
    structured.check_schema(schema)
    return schema
