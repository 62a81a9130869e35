"""`counsel people keys`: vendors' keys that people bring to a team's server.

A key is typed or piped, never an argument.

After `counsel login`, the keys are those of your own account; on the server, with COUNSEL_DATABASE, anyone's
(`--person`).
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from counsel.cli import json_option, user
from counsel.cli.team.team_database import log_change, run_in_store
from counsel.cli.terminal import output
from counsel.errors import AuthenticationFailed, InvalidArgument, from_dict

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store

_person = click.option(
    "--person",
    metavar="NAME",
    help="The person whose key it is; for operators, where COUNSEL_DATABASE is set.",
)


@click.group()
def keys() -> None:
    """Bring your own vendor keys.

    The server uses them for your calls only, and never shows them.
    """


@keys.command("set")
@click.argument("provider")
@_person
@json_option
def set_(provider: str, person: str | None, as_json: bool) -> None:
    """Store a key, typed without echo or read from standard input."""
    key = _read_key(provider)

    async def work(store: Store, identity: str) -> str:
        from counsel.engine.team.own_keys import OwnKeys

        return await OwnKeys(store).set(identity, provider, key, user.caller().settings)

    _change("PUT", provider, person, work, {"key": key}, "stored", as_json=as_json)


@keys.command()
@click.argument("provider")
@_person
@json_option
def remove(provider: str, person: str | None, as_json: bool) -> None:
    """Remove a key; the server's own is used again."""

    async def work(store: Store, identity: str) -> str:
        from counsel.engine.team.own_keys import OwnKeys

        return await OwnKeys(store).remove(identity, provider, user.caller().settings)

    _change("DELETE", provider, person, work, None, "removed", as_json=as_json)


@keys.command("list")
@_person
@json_option
def list_(person: str | None, as_json: bool) -> None:
    """List the providers for which you have stored your own key."""
    if person is None and _has_login():
        rows = {row["provider"]: row["stored_at"] for row in _request("GET", "")["keys"] if row["stored_at"]}
    else:

        async def work(store: Store) -> dict[str, str]:
            from counsel.engine.results import iso

            times_stored = await store.person_keys.stored(await _identity(store, person))
            return {provider: iso(at) for provider, at in times_stored.items()}

        rows = run_in_store(work)
    if as_json:
        output.document({"keys": [{"provider": name, "stored_at": at} for name, at in rows.items()]})
    elif rows:
        output.table(["provider", "stored"], [[name, at[:16].replace("T", " ")] for name, at in rows.items()])
    elif person:
        output.message(f"{person} has no keys of their own.")
    else:
        output.message("No keys of your own: the server's are used.")


@keys.command()
def reseal() -> None:
    """Encrypt all keys again; run it on the server.

    Keys that were encrypted with COUNSEL_SECRET_KEY_OLD are then encrypted with COUNSEL_SECRET_KEY.
    """

    async def work(store: Store) -> int:
        from counsel.engine.team.own_keys import OwnKeys

        return await OwnKeys(store).reseal(user.caller().settings)

    count = run_in_store(work)
    output.message(f"{count} encrypted again; COUNSEL_SECRET_KEY_OLD is no longer needed.")


def _change(
    method: str, provider: str, person: str | None, work: Any, body: Any, outcome: str, *, as_json: bool
) -> None:
    if person is None and _has_login():
        _request(method, f"/{quote(provider, safe='')}", body)
        name = provider
    else:

        async def run_work(store: Store) -> str:
            provider_name: str = await work(store, await _identity(store, person))
            return provider_name

        name = run_in_store(run_work)
        log_change(person or "", f"own key of {name} {outcome}")
    if as_json:
        output.document({"provider": name, outcome: True})
    else:
        output.message(f"{name}: the key is {outcome}.")


async def _identity(store: Store, person: str | None) -> str:
    from counsel.engine.team.people.directory import Directory

    if person is None:
        raise InvalidArgument(
            "No person is given.", hint="Add --person NAME, or join the server with `counsel login`."
        )
    return (await Directory(store.people).find(person)).person.id


def _has_login() -> bool:
    settings = user.caller().settings
    return bool(settings.team) and not settings.database


def _request(method: str, path: str, body: object = None) -> Any:
    """Send a request to the team's server that this machine has joined."""
    login = user.caller().settings.team
    assert login is not None

    async def ask() -> object:
        import aiohttp

        headers = {"Authorization": f"Bearer {login.token}"}
        try:
            async with (
                aiohttp.ClientSession(headers=headers, trust_env=True) as session,
                session.request(
                    method,
                    f"{login.url}/api/team/keys{path}",
                    json=body,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=30),
                ) as answer,
            ):
                document = await answer.json(content_type=None)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AuthenticationFailed(
                f"{login.host} did not answer ({type(error).__name__}).",
                hint="`counsel login --status` checks the connection.",
            ) from None
        if answer.status == 401:
            raise AuthenticationFailed(
                f"{login.host} rejected this login: its token is wrong or no longer valid.",
                hint=f"Run `counsel login {login.url}` with a new token.",
            )
        if answer.status != 200:
            raise from_dict(document)
        return document

    return asyncio.run(ask())


def _read_key(provider: str) -> str:
    from counsel.models import provider_keys

    if not sys.stdin.isatty():
        return provider_keys.parsed(sys.stdin.read(provider_keys.LONGEST + 1))
    return provider_keys.parsed(str(click.prompt(f"Your {provider} key", hide_input=True, err=True)))
