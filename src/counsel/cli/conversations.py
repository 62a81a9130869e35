"""`counsel conversations`: list, show, search, export, delete what is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from counsel.cli import ask_options, connect, json_option, output
from counsel.types import Json


@contextmanager
def _archive() -> Iterator[Any]:
    from counsel.engine.history.archive import Archive

    archive = Archive(connect.caller().settings.home)
    try:
        if archive.problem:
            output.words(f"warning: {archive.problem}")
        yield archive
    finally:
        archive.close()


@click.group()
def conversations() -> None:
    """List, show, search, export or delete conversations."""


def _limit(command: Callable[..., Any]) -> Callable[..., Any]:
    words = "Number of conversations to list."
    return click.option(
        "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help=words
    )(command)


@conversations.command("list")
@_limit
@json_option
def list_(limit: int, as_json: bool) -> None:
    """List the newest conversations."""
    with _archive() as archive:
        _print(connect.run(archive.listed(limit)), as_json=as_json)


@conversations.command()
@click.argument("words", nargs=-1, required=True)
@_limit
@json_option
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List conversations that contain all WORDS."""
    with _archive() as archive:
        _print(connect.run(archive.search(" ".join(words), limit)), as_json=as_json)


def _print(found: Json, *, as_json: bool) -> None:
    if as_json:
        output.document(found)
        return
    rows = [
        [
            held["id"],
            held["updated_at"][:16].replace("T", " "),
            str(held["messages"]),
            held["model"] or held["tool"],
            held.get("found") or held["title"] or "",
        ]
        for held in found["conversations"]
    ]
    if rows:
        output.table(["conversation", "updated", "messages", "model", "title"], rows)
    else:
        output.words("No conversations.")


@conversations.command()
@click.argument("name", metavar="ID")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a whole conversation."""
    with _archive() as archive:
        held = archive.show(name)
    if as_json:
        output.document(held)
        return
    if not held["history"]:
        output.words("It has no messages yet.")
    for message in held["history"]:
        about = message.get("metadata", {})
        who = about.get("model", "") if message["role"] == "assistant" else ""
        mark = f" · partial: {about['status']}" if about.get("partial") else ""
        output.answer(
            f"── {message['role']} {who}".rstrip()
            + f" · {message['at'][:16]}{mark}\n{message['content']}\n\n"
        )
    for job in held["unfinished"]:
        line = f"job {job['job_id']} {job['status']}: {job['title']}"
        output.words(f"{line} (counsel jobs {job['job_id']} shows it)")


@conversations.command()
@click.argument("name", metavar="ID")
@click.argument("folder", required=False, metavar="[DIR]")
@json_option
def export(name: str, folder: str | None, as_json: bool) -> None:
    """Write a conversation to a folder named after it, here or in DIR."""
    who = connect.caller(also=ask_options.export_roots({"export": folder}))
    with _archive() as archive:
        written = archive.export(name, str(Path(folder).absolute()) if folder else None, who)
    if as_json:
        output.document({"id": name, "folder": str(written)})
    else:
        output.words(f"exported to {written}")


@conversations.command()
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Do not ask for confirmation; required without a terminal and with --json.",
)
@json_option
def delete(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete conversations and their finished jobs. This cannot be undone."""
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise click.UsageError("Deleting needs confirmation: add --yes.")
        click.confirm(
            f"Delete {len(names)} conversation{'s' if len(names) > 1 else ''} permanently?",
            abort=True,
            err=True,
        )
    with _archive() as archive:
        connect.run(archive.delete(*names))
    if as_json:
        output.document({"deleted": list(names)})
    else:
        output.words(f"deleted {', '.join(names)}")
