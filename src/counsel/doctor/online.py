"""`counsel doctor --online`: whether each provider can be reached and accepts the key."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from counsel import json_reader, redaction
from counsel.caller import Caller
from counsel.doctor.messages import Finding, finding
from counsel.errors import AuthenticationFailed, CounselError, RateLimited
from counsel.models.catalog import Catalog
from counsel.models.catalog_rows import shipped
from counsel.models.provider_keys import TEST_PATHS
from counsel.types import Endpoint, Limits

if TYPE_CHECKING:
    from counsel.models.transport import Transport
    from counsel.team_login import TeamLogin

ONLINE = Limits(total=10.0, connect=5.0, first_event=10.0, idle=10.0)


async def reach(caller: Caller) -> list[Finding]:
    """Request the list of models from every provider that is set up, concurrently."""
    from counsel.models.transport import Transport  # aiohttp is for --online only

    catalog = Catalog.load(caller.settings)
    ready = [
        catalog.endpoint(row.provider.name) for row in catalog.providers() if row.available and not row.team
    ]
    login = caller.settings.team
    if not ready and login is None:
        return [finding("online.none")]
    transport = Transport()
    try:
        tests = [_reach(transport, endpoint) for endpoint in ready]
        if login is not None and not login.problem:
            tests.append(_reach_team(transport, login, caller))
        return list(await asyncio.gather(*tests))
    finally:
        await transport.close()


async def _reach(transport: Transport, endpoint: Endpoint) -> Finding:
    provider = endpoint.provider
    start = time.monotonic()
    try:
        await transport.get_json(endpoint, _path(endpoint), ONLINE)
    except AuthenticationFailed as error:
        hint = f"Get a new key at {provider.key_url}." if provider.key_url else error.hint
        return finding("online.key", label=provider.label, hint=hint or "Set another key.")
    except RateLimited:
        return finding("online.limited", label=provider.label)
    except CounselError as error:
        hint = error.hint or "Check the network and the provider's address."
        return finding(
            "online.failed", label=provider.label, problem=redaction.redact(error.message), hint=hint
        )
    # a user's own server may list its models without checking the key
    key_was_tested = endpoint.key and provider.name in shipped().providers
    suffix = ", key accepted" if key_was_tested else ""
    return finding("online.ok", label=provider.label, seconds=time.monotonic() - start, accepted=suffix)


async def _reach_team(transport: Transport, login: TeamLogin, caller: Caller) -> Finding:
    from counsel.models import team  # few users have joined a team

    start = time.monotonic()
    try:
        info = await team.ask(transport, login, caller.env)
    except CounselError as error:
        return finding(
            "team.failed", problem=redaction.redact(error.message), hint=error.hint or "Try again."
        )
    return finding(
        "team.reached",
        host=login.host,
        seconds=time.monotonic() - start,
        release=info["counsel"],
        models=len(json_reader.values(info, "models")),
    )


def _path(endpoint: Endpoint) -> str:
    from counsel.models.wires import WIRES  # for --online only

    return TEST_PATHS.get(endpoint.provider.name) or WIRES[endpoint.provider.wire].models_path
