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
from counsel.cli import json_option, output
from counsel.errors import AuthenticationFailed, CounselError, InvalidArgument, TimedOut
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.team_login import TeamLogin

SKEW = 300  # seconds between the two clocks that are worth a word


@click.command(context_settings={"allow_extra_args": True})
@click.argument("url", required=False)
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
@click.option("--status", is_flag=True, help="Show the team server, and whether it accepts this login.")
@json_option
@click.pass_context
def login(context: click.Context, url: str | None, *, token_stdin: bool, status: bool, as_json: bool) -> None:
    """Join a team: API questions then go to its server, with its keys, models and budgets.

    The token is typed without echo or read from standard input, and stored in the system's keychain or in
    COUNSEL_HOME, where only you can read it. Files are read on this machine, and agents run here, as before.

        counsel login https://team.example
    """
    if context.args:  # not shown: it may be the token
        raise click.UsageError(
            "The token is not an argument: type it when asked, or pipe it (--token-stdin). If you just typed it here, "
            "end it: other users of this machine could see it, and your shell may keep it."
        )
    if url is None:
        if not status and settings.load().team is None:
            raise InvalidArgument(
                "Which server? No team was joined yet.", hint="counsel login https://team.example"
            )
        _status(as_json=as_json)
        return
    from counsel import team_login

    address = team_login.checked_url(url)
    token = _token(address, from_stdin=token_stdin)
    try:
        about = _asked(team_login.TeamLogin(address, token))
    except CounselError as error:
        raise _not_joined(error, address) from None
    home = settings.load().home
    before = team_login.read(home)
    joined = team_login.write(home, address, token, about)
    if as_json:
        output.document(_document(joined, about))
        return
    if before is not None and before.url and before.url != address:
        output.message(f"You have left {before.url}.")
    output.message(f"You have joined {address}{_as_whom(joined)}: {_offer(about)}.")
    output.message(f"The token is in {_place(joined, home)}.")
    for note in _notes(joined, about):
        output.message(f"note: {note}")


@click.command()
@json_option
def logout(*, as_json: bool) -> None:
    """Leave the team: questions are asked with this machine's own keys again.

    Jobs that are running finish with the login they started with.
    """
    from counsel import team_login

    home = settings.load().home
    before = team_login.read(home)
    team_login.remove(home)
    if as_json:
        output.document({"left": before.url if before else None})
        return
    if before is None:
        output.message("No team was joined. Nothing was changed.")
        return
    output.message(f"You have left {before.url or 'the team'}. Jobs that run now end with that login.")
    output.message("note: the token itself is still valid: end it at the server if nobody else uses it")


def _not_joined(error: CounselError, address: str) -> CounselError:
    """Nobody has joined this server yet: advice for those who have would only confuse."""
    if isinstance(error, AuthenticationFailed):
        error.message = f"{address} does not accept this token."
        error.hint = "Check that all of it was typed, or get a new one. Nothing was changed."
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


def _asked(login_: TeamLogin) -> Mapping[str, object]:
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
    loaded = settings.load()
    joined = loaded.team
    if joined is None:
        if as_json:
            output.document({"joined": False})
        else:
            output.message("No team was joined: questions are asked with this machine's own keys.")
        return
    about, failure = None, None
    try:
        if not joined.problem:
            about = _asked(joined)
            _remember(joined, about)
    except CounselError as error:
        failure = error
    if as_json:
        output.document(_document(joined, about, failure))
    else:
        _print_status(joined, about)
    if failure is not None or joined.problem:
        if failure is not None and not as_json:
            raise failure
        if joined.problem and not as_json:
            output.message(f"problem: {joined.problem}")
        raise click.exceptions.Exit(1)


def _remember(joined: TeamLogin, about: Mapping[str, object]) -> None:
    from counsel import team_login

    team_login.write_models(settings.load().home, joined.url, joined.person, about)


def _print_status(joined: TeamLogin, about: Mapping[str, object] | None) -> None:
    loaded = settings.load()
    output.line(f"server   {joined.url or 'not known'}")
    output.line(f"you      {joined.name or joined.person or 'the server has one person'}{_role(joined)}")
    output.line(f"token    in {_place(joined, loaded.home)}")
    output.line(f"offline  {loaded.team_offline} (team_offline)")
    if about is not None:
        output.line(f"answers  yes: {_offer(about)}")
        for note in _notes(joined, about):
            output.message(f"note: {note}")


def _document(
    joined: TeamLogin, about: Mapping[str, object] | None, failure: CounselError | None = None
) -> dict[str, object]:
    own: dict[str, object] = {"id": joined.person, "name": joined.name, "role": joined.role}
    person = read.part(about or {}, "person") or own
    return {
        "joined": True,
        "url": joined.url,
        "person": person if person.get("id") else None,
        "token_in": "keychain" if joined.in_keychain else "file",
        "reachable": about is not None,
        "release": about["counsel"] if about else joined.release or None,
        "models": len(read.values(about, "models")) if about else len(joined.models),
        "problem": joined.problem or None,
        "error": failure.as_dict() if failure else None,
    }


def _offer(about: Mapping[str, object]) -> str:
    return f"counsel {about['counsel']}, {counted(len(read.values(about, 'models')), 'model')}"


def _as_whom(joined: TeamLogin) -> str:
    return f" as {joined.name}{_role(joined)}" if joined.name else ""


def _role(joined: TeamLogin) -> str:
    return f" ({joined.role})" if joined.role else ""


def _place(joined: TeamLogin, home: os.PathLike[str]) -> str:
    return "the system's keychain" if joined.in_keychain else f"{os.fspath(home)}/team.json"


def _notes(joined: TeamLogin, about: Mapping[str, object]) -> list[str]:
    notes = []
    if read.part(about, "person").get("role") == "read-only":
        notes.append("your role is read-only: you can look, not ask")
    if not about["models"]:
        notes.append("the server offers you no model: it has no key of a provider")
    if about["counsel"] != __version__:
        notes.append(f"the server runs counsel {about['counsel']}, this is {__version__}")
    skew = time.time() - (read.number(about, "time") or time.time())
    if abs(skew) > SKEW:
        notes.append(
            f"this machine's clock is {abs(skew) / 60:.0f} minutes {'ahead of' if skew > 0 else 'behind'} the server's"
        )
    loaded = settings.load()
    notes += [
        f"{name} is set in this shell only: put it into {loaded.home}/.env for other programs"
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")
        if loaded.env.get(name) and loaded.source(name) == "environment"
    ]
    if not joined.problem and _has_own_keys(loaded):
        notes.append("this machine's own keys are not used while you are logged in")
    return notes


def _has_own_keys(loaded: settings.Settings) -> bool:
    from counsel.models import provider_keys

    return any(provider_keys.source(row, loaded) for row in provider_keys.rows(loaded))
