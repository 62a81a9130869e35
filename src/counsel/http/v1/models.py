"""`/v1/models`: everything that can be asked, in OpenAI's and Anthropic's formats."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from counsel.agents import registry
from counsel.caller import Caller
from counsel.errors import CounselError, ModelNotFound
from counsel.http.v1 import consensus
from counsel.models import panels
from counsel.models.catalog import Catalog

_CREATED = 1_735_689_600  # 2025-01-01: clients require a date, and the catalog has none
_DATE = "2025-01-01T00:00:00Z"


async def model_list(caller: Caller, headers: Mapping[bytes, str]) -> dict[str, object]:
    rows = await asyncio.to_thread(_rows, caller)
    if b"anthropic-version" not in headers:
        return {"object": "list", "data": [_openai(name, owner) for name, (owner, _) in rows.items()]}
    entries = [_anthropic(name, label) for name, (_, label) in rows.items()]
    names = list(rows)
    return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}


async def model_entry(caller: Caller, headers: Mapping[bytes, str], name: str) -> dict[str, object]:
    rows = await asyncio.to_thread(_rows, caller)
    if name not in rows:
        rows[name] = await asyncio.to_thread(_unlisted, name, caller, rows)
    owner, label = rows[name]
    return _anthropic(name, label) if b"anthropic-version" in headers else _openai(name, owner)


def _rows(caller: Caller) -> dict[str, tuple[str, str]]:
    """Name → owner and label: `auto`, models whose keys are set, the user's panels and aliases, and installed
    agents."""
    catalog = Catalog.load(caller.settings)
    rows = {"auto": ("counsel", "auto: the best model that can answer")}
    for row in catalog.models():
        if row.available:
            rows[row.model.id] = (row.model.provider, row.model.label or row.model.id)
    rows |= {
        f"{consensus.PREFIX}:{panels.MARK}{name}": ("counsel", f"consensus of {panels.MARK}{name}")
        for name in panels.usable(caller.settings)
    }
    rows |= {alias.name: ("alias", f"{alias.name} ({alias.target})") for alias in catalog.aliases}
    if caller.person is None or caller.settings.team_agents:  # otherwise they do not run on a team's server
        rows |= {agent.name: ("agent", agent.agent.label) for agent in registry.available(caller)}
    return rows


def _unlisted(name: str, caller: Caller, rows: Mapping[str, object]) -> tuple[str, str]:
    """Owner and label of another name: `provider/model`, an alias of the catalog, `claude:opus`, a chain, a
    consensus."""
    if consensus.is_named(name) or "," in name:
        for member in _members(name, caller):
            if member not in rows:
                _unlisted(member, caller, rows)
        return "counsel", name
    agent = registry.resolve(name)
    if agent and agent.agent.name in rows:
        return "agent", agent.agent.label
    try:
        if agent:
            raise ModelNotFound(name)
        model = Catalog.load(caller.settings).lookup(name)
    except CounselError:
        raise ModelNotFound(
            f"The model '{name}' does not exist.", hint="GET /v1/models lists them."
        ) from None
    return model.provider, model.label or model.id


def _members(name: str, caller: Caller) -> list[str]:
    """The models of a chain or a consensus."""
    is_consensus = consensus.is_named(name)
    text = name[len(consensus.PREFIX) + 1 :] if is_consensus else name
    members = [member.strip() for member in text.split(",")]
    if not is_consensus:
        return members
    return [
        panels.name_of(entry).strip() for entry in panels.expanded(filter(None, members), caller.settings)
    ]


def _openai(name: str, owner: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": owner}


def _anthropic(name: str, label: str) -> dict[str, object]:
    return {"type": "model", "id": name, "display_name": label, "created_at": _DATE}
