"""What a server tells a counsel that joins it: its release, the person's name, and which models they may ask."""

from __future__ import annotations

import asyncio
import time

from counsel import __version__
from counsel.caller import Caller
from counsel.errors import Conflict
from counsel.http.v1.own import VERSION
from counsel.models.catalog import Catalog
from counsel.types import Model


def refuse_relays(caller: Caller) -> None:
    """Refuse calls if this counsel has joined a team itself: two of them could send a call in a circle."""
    if login := caller.settings.team:
        raise Conflict(
            f"This counsel has joined {login.url} itself, so it takes no calls from others.",
            hint=f"Join that server: `counsel login {login.url}`.",
        )


async def about(caller: Caller) -> dict[str, object]:
    return await asyncio.to_thread(_about, caller)


def _about(caller: Caller) -> dict[str, object]:
    catalog = Catalog.load(caller.settings)
    person = caller.person
    return {
        "counsel": __version__,
        "version": VERSION,
        "time": round(time.time()),
        "person": None
        if person is None
        else {"id": person.id, "name": person.name, "role": person.role, "groups": list(person.groups)},
        "providers": [
            {"name": row.provider.name, "label": row.provider.label, "open": row.provider.open_models}
            for row in catalog.providers()
            if row.available
        ],
        "models": [_model(row.model) for row in catalog.models() if row.available],
    }


def _model(model: Model) -> dict[str, object]:
    """What the other counsel needs to know about a model that is not in its own catalog."""
    return {
        "id": model.id,
        "provider": model.provider,
        "wire_id": model.wire_id,
        "label": model.label,
        "context": model.context,
        "output": model.output,
        "vision": model.vision,
        "tools": model.tools,
        "web_search": model.web_search,
        "efforts": list(model.efforts),
        "verbosity": model.verbosity,
        "media_resolution": model.media_resolution,
        "temperature": list(model.temperature) if model.temperature else None,
        "auto_rank": model.auto_rank,
    }
