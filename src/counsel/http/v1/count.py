"""`/v1/messages/count_tokens`: an estimate, which is rather too high than too low."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from counsel.agents import registry
from counsel.caller import Caller
from counsel.engine.context import tokens
from counsel.http.v1 import consensus, messages_request
from counsel.types import Call, Model


async def counted(body: dict[str, object], headers: Mapping[bytes, str], caller: Caller) -> dict[str, int]:
    request = messages_request.parse(body, headers, counts=True).request
    model = await asyncio.to_thread(_model, request.model, caller)
    call = Call(request.turns, request.system, tools=request.tools)
    return {"input_tokens": tokens.estimate_call(call, model)}


def _model(name: str, caller: Caller) -> Model:
    """Images count differently. Raises `ModelNotFound`."""
    from counsel.models.catalog import Catalog

    if name.lower() == "auto" or "," in name or consensus.is_named(name) or registry.resolve(name):
        return Model(name, "", name)
    return Catalog.load(caller.settings).lookup(name)
