"""`counsel conversations`: list, show, search, export, share and delete conversations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counsel import json_reader as read
from counsel.cli import ListingGroup, archive, completers, ids, json_option, user
from counsel.cli.terminal import output, times
from counsel.cli.terminal.confirm import confirm
from counsel.errors import InvalidArgument, NotFound
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.engine.history.documents import ConversationList


@click.group(cls=ListingGroup)
def conversations() -> None:
    """List, show, search, export or delete conversations. Without a verb: the list.

    ID is the beginning of the id of a conversation or of one of its jobs, or `last`: the newest of this folder.
    """


def _limit(command: Callable[..., object]) -> Callable[..., object]:
    summary = "Number of conversations to list."
    return click.option(
        "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help=summary
    )(command)


@conversations.command("list")
@_limit
@json_option
def list_(limit: int, as_json: bool) -> None:
    """List the newest conversations."""
    with archive.open_for_reading() as history:
        _print(archive.run(history.conversations(limit)), as_json=as_json)


@conversations.command()
@click.argument("words", nargs=-1, required=True)
@_limit
@json_option
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List conversations that contain all WORDS."""
    with archive.open_for_reading() as history:
        _print(archive.run(history.search(" ".join(words), limit)), as_json=as_json)


def _print(listing: ConversationList, *, as_json: bool) -> None:
    if as_json:
        output.document(listing)
        return
    is_pipe = output.width() is None
    rows = [
        [
            conversation["id"] if is_pipe else ids.short(conversation["id"]),
            times.ago(times.seconds(conversation["updated_at"])),
            str(conversation["messages"]),
            conversation["model"] or conversation["tool"],
            conversation.get("found") or conversation["title"] or "",
        ]
        for conversation in listing["conversations"]
    ]
    if rows:
        output.table(
            ["conversation", "updated", "messages", "model", "title"], rows, shortened=("title", "model")
        )
    else:
        output.message("No conversations.")


@conversations.command()
@click.argument("name", metavar="ID", shell_complete=completers.conversations)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a whole conversation."""
    name = ids.conversation(name, user.caller())
    with archive.open_for_reading() as history:
        conversation = archive.run(history.show(name))
    if as_json:
        output.document(conversation)
        return
    if not conversation["history"]:
        output.message("The conversation has no messages yet.")
    for message in read.parts(conversation, "history"):
        metadata, role = read.part(message, "metadata"), read.text(message, "role")
        model = read.text(metadata, "model") if role == "assistant" else ""
        mark = f" · partial: {metadata['status']}" if metadata.get("partial") else ""
        at = times.local(times.seconds(read.text(message, "at")))
        head = f"── {role} {model}".rstrip() + f" · {at}{mark}"
        output.turn(head, read.text(message, "content"), rendered=role == "assistant")
    for job in read.parts(conversation, "unfinished"):
        name = read.text(job, "job_id")
        line = f"job {name} {job['status']}: {job['title']}"
        output.message(f"{line} (counsel jobs {ids.short(name)} shows it)")


@conversations.command()
@click.argument("name", metavar="ID", shell_complete=completers.conversations)
@click.argument("folder", required=False, metavar="[DIR]")
@json_option
def export(name: str, folder: str | None, as_json: bool) -> None:
    """Write a conversation to a folder named after it, here or in DIR."""
    from counsel.cli.questions.ask_options import export_roots

    caller = user.caller(roots=export_roots({"export": folder}))
    name = ids.conversation(name, caller)
    target = str(Path(folder).absolute()) if folder else None
    export_folder = archive.change(lambda stored: stored.export(name, target, caller))
    if as_json:
        output.document({"id": name, "folder": str(export_folder)})
    else:
        output.message(f"exported to {export_folder}")


@conversations.command()
@click.argument("names", nargs=-1, required=True, metavar="ID…", shell_complete=completers.conversations)
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Do not ask for confirmation; required without a terminal and with --json.",
)
@json_option
def delete(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete conversations and their finished jobs. This cannot be undone."""
    if not yes and (as_json or not sys.stdin.isatty()):
        raise click.UsageError("Deleting needs confirmation: add --yes.")
    caller = user.caller()
    names = tuple(dict.fromkeys(ids.conversation(name, caller, changes=True) for name in names))
    if not yes:
        for name in names:
            output.message(ids.description(name, caller))
        confirm(f"Delete {counted(len(names), 'conversation')} permanently?")
    archive.change(lambda stored: stored.delete(*names))
    if as_json:
        output.document({"deleted": list(names)})
    else:
        output.message(f"deleted {', '.join(names)}")


@conversations.command()
@click.argument("name", metavar="ID")
@json_option
def share(name: str, as_json: bool) -> None:
    """Let your team read one of your conversations on its server.

    Everyone there can read the conversation, its images and what you add to it, until you unshare it. ID must be the
    full id.
    """
    _set_sharing(name, on=True, as_json=as_json)


@conversations.command()
@click.argument("name", metavar="ID")
@json_option
def unshare(name: str, as_json: bool) -> None:
    """Stop sharing a conversation with your team."""
    _set_sharing(name, on=False, as_json=as_json)


def _set_sharing(name: str, *, on: bool, as_json: bool) -> None:
    login = user.caller().settings.team
    if login is None:
        raise InvalidArgument(
            "Only conversations on a team's server can be shared.", hint="Run `counsel login URL` first."
        )
    from counsel.cli import connect
    from counsel.models import team
    from counsel.models.transport import Transport

    async def ask() -> dict[str, object]:
        transport = Transport()
        try:
            return dict(await team.share(transport, login, user.caller().env, name, on=on))
        except NotFound:
            raise NotFound(
                f"{login.url} has no conversation of yours with the id {name}.",
                hint="Its console lists your conversations there with their ids. Those on this machine cannot be shared.",
            ) from None
        finally:
            await transport.close()

    reply = connect.run(ask())
    sharing = reply.get("shared")
    if as_json:
        output.document({"id": name, "shared": sharing})
    else:
        output.message(f"{name} is {'shared with the team' if sharing else 'no longer shared'}.")
