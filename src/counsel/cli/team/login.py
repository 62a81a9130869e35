"""`counsel login` and `counsel logout`: join a team's server. The token is never an argument: others could see it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from counsel import __version__, settings
from counsel import json_reader as read
from counsel.cli import json_option
from counsel.cli.terminal import output
from counsel.errors import AuthenticationFailed, CounselError, InvalidArgument, TimedOut
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.team_login import TeamLogin

MAX_SKEW = 300  # seconds; a larger difference between the clocks is reported


@click.command(context_settings={"allow_extra_args": True})
@click.argument("url", required=False)
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
@click.option("--status", is_flag=True, help="Show the team server, and whether it accepts this login.")
@json_option
@click.pass_context
def login(context: click.Context, url: str | None, *, token_stdin: bool, status: bool, as_json: bool) -> None:
    """Join a team: questions to API models then go through its server, with its keys, models and budgets.

    The token is typed without echo or read from standard input, and stored in the system's keychain or in
    COUNSEL_HOME, where only you can read it. Files are read on this machine, and agents run here, as before.

        counsel login https://team.example
    """
    if context.args:  # not shown: it may be the token
        raise click.UsageError(
            "Do not pass the token as an argument: type it when asked, or pipe it (--token-stdin). If you just typed it "
            "here, revoke it: other users of this machine could see it, and your shell may keep it."
        )
    if url is None:
        if not status and settings.load().team is None:
            raise InvalidArgument(
                "This machine has not joined a team.", hint="Run `counsel login https://team.example`."
            )
        _status(as_json=as_json)
        return
    from counsel import team_login

    address = team_login.checked_url(url)
    token = _token(address, from_stdin=token_stdin)
    try:
        info = _ask_server(team_login.TeamLogin(address, token))
    except CounselError as error:
        raise _join_error(error, address) from None
    home = settings.load().home
    previous = team_login.read(home)
    membership = team_login.write(home, address, token, info)
    if as_json:
        output.document(_document(membership, info))
        return
    if previous is not None and previous.url and previous.url != address:
        output.message(f"You have left {previous.url}.")
    output.message(f"You have joined {address}{_as_person(membership)}: {_offer(info)}.")
    output.message(f"The token is in {_token_place(membership, home)}.")
    for note in _notes(membership, info):
        output.message(f"note: {note}")


@click.command()
@json_option
def logout(*, as_json: bool) -> None:
    """Leave the team: questions use this machine's own keys again.

    Running jobs finish with the login they started with.
    """
    from counsel import team_login

    home = settings.load().home
    previous = team_login.read(home)
    team_login.remove(home)
    if as_json:
        output.document({"left": previous.url if previous else None})
        return
    if previous is None:
        output.message("This machine has not joined a team. Nothing was changed.")
        return
    output.message(f"You have left {previous.url or 'the team'}. Running jobs finish with that login.")
    output.message("note: the token is still valid: revoke it on the server if nothing else uses it")


def _join_error(error: CounselError, address: str) -> CounselError:
    """The error with a hint for a person who has not joined yet; the usual hints are for those who have."""
    if isinstance(error, AuthenticationFailed):
        error.message = f"{address} does not accept this token."
        error.hint = "Check that it is complete, or get a new one. Nothing was changed."
    elif error.fields.get("unreachable") or isinstance(error, TimedOut):
        error.hint = "Check the address, the network and the VPN. Nothing was changed."
    elif error.fields.get("status") == 404:
        error.hint = "Check the address. Nothing was changed."
    elif error.fields.get("team"):
        error.hint = f"{error.hint or ''} Nothing was changed.".strip()
    return error


def _token(address: str, *, from_stdin: bool) -> str:
    from counsel.models import provider_keys

    if from_stdin or not sys.stdin.isatty():
        text = sys.stdin.read(provider_keys.LONGEST + 1)
    else:
        output.message(
            f"Get a token at {address}/ (account, “Use on a laptop”), or from whoever runs the server."
        )
        text = str(click.prompt("Token", hide_input=True, err=True))
    return provider_keys.parsed(text, "token")


def _ask_server(login_: TeamLogin) -> Mapping[str, object]:
    import asyncio  # only these commands need it

    from counsel.models import team
    from counsel.models.transport import Transport

    async def ask() -> Mapping[str, object]:
        transport = Transport()
        try:
            return await team.ask(transport, login_, settings.load().env)
        finally:
            await transport.close()

    return asyncio.run(ask())


def _status(*, as_json: bool) -> None:
    user_settings = settings.load()
    membership = user_settings.team
    if membership is None:
        if as_json:
            output.document({"joined": False})
        else:
            output.message("This machine has not joined a team: questions use its own keys.")
        return
    info, failure = None, None
    try:
        if not membership.problem:
            info = _ask_server(membership)
            _remember(membership, info)
    except CounselError as error:
        failure = error
    if as_json:
        output.document(_document(membership, info, failure))
    else:
        _print_status(membership, info)
    if failure is not None or membership.problem:
        if failure is not None and not as_json:
            raise failure
        if membership.problem and not as_json:
            output.message(f"problem: {membership.problem}")
        raise click.exceptions.Exit(1)


def _remember(membership: TeamLogin, info: Mapping[str, object]) -> None:
    from counsel import team_login

    team_login.write_models(settings.load().home, membership.url, membership.person, info)


def _print_status(membership: TeamLogin, info: Mapping[str, object] | None) -> None:
    user_settings = settings.load()
    output.line(f"server   {membership.url or 'unknown'}")
    output.line(
        f"you      {membership.name or membership.person or '(the server belongs to one person)'}{_role(membership)}"
    )
    output.line(f"token    in {_token_place(membership, user_settings.home)}")
    output.line(f"offline  {user_settings.team_offline} (team_offline)")
    if info is not None:
        output.line(f"answers  yes: {_offer(info)}")
        for note in _notes(membership, info):
            output.message(f"note: {note}")


def _document(
    membership: TeamLogin, info: Mapping[str, object] | None, failure: CounselError | None = None
) -> dict[str, object]:
    stored_person: dict[str, object] = {
        "id": membership.person,
        "name": membership.name,
        "role": membership.role,
    }
    person = read.part(info or {}, "person") or stored_person
    return {
        "joined": True,
        "url": membership.url,
        "person": person if person.get("id") else None,
        "token_in": "keychain" if membership.in_keychain else "file",
        "reachable": info is not None,
        "release": info["counsel"] if info else membership.release or None,
        "models": len(read.values(info, "models")) if info else len(membership.models),
        "problem": membership.problem or None,
        "error": failure.as_dict() if failure else None,
    }


def _offer(info: Mapping[str, object]) -> str:
    return f"counsel {info['counsel']}, {counted(len(read.values(info, 'models')), 'model')}"


def _as_person(membership: TeamLogin) -> str:
    return f" as {membership.name}{_role(membership)}" if membership.name else ""


def _role(membership: TeamLogin) -> str:
    return f" ({membership.role})" if membership.role else ""


def _token_place(membership: TeamLogin, home: os.PathLike[str]) -> str:
    return "the system's keychain" if membership.in_keychain else f"{os.fspath(home)}/team.json"


def _notes(membership: TeamLogin, info: Mapping[str, object]) -> list[str]:
    notes = []
    if read.part(info, "person").get("role") == "read-only":
        notes.append("your role is read-only: you can read, but not ask")
    if not info["models"]:
        notes.append("the server offers you no model: it has no provider's key")
    if info["counsel"] != __version__:
        notes.append(f"the server runs counsel {info['counsel']}, this machine {__version__}")
    skew = time.time() - (read.number(info, "time") or time.time())
    if abs(skew) > MAX_SKEW:
        notes.append(
            f"this machine's clock is {abs(skew) / 60:.0f} minutes {'ahead of' if skew > 0 else 'behind'} the server's"
        )
    user_settings = settings.load()
    notes += [
        f"{name} is set in this shell only: put it in {user_settings.home}/.env for other programs"
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")
        if user_settings.env.get(name) and user_settings.source(name) == "environment"
    ]
    if not membership.problem and _has_own_keys(user_settings):
        notes.append("this machine's own keys are not used while you are logged in")
    return notes


def _has_own_keys(user_settings: settings.Settings) -> bool:
    from counsel.models import provider_keys

    return any(provider_keys.source(row, user_settings) for row in provider_keys.rows(user_settings))
