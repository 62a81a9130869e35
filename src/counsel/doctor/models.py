"""`counsel doctor`: models, aliases, the order of `auto`, providers and their keys. Never shows a key."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from counsel import redaction
from counsel.caller import Caller
from counsel.doctor.messages import Finding, finding
from counsel.models import auto
from counsel.models.catalog import Catalog, ProviderRow

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_CONNECT = 1.0  # seconds for a connection to this machine


def models(caller: Caller) -> Iterator[Finding]:
    catalog = Catalog.load(caller.settings)
    count, available = catalog.counts()
    yield finding("models.known", count=count, available=available)
    for problem in catalog.problems:
        config = caller.settings.home / "config.toml"
        yield finding("models.bad", problem=redaction.redact(problem), config=config)
    if caller.settings.auto_order:
        yield from _order(catalog, caller)


def _order(catalog: Catalog, caller: Caller) -> Iterator[Finding]:
    """Report entries of the user's order that match no model; if none can be asked, `auto` fails."""
    source = caller.settings.source("auto_order")
    entries = auto.explain(catalog, auto.Needs(), caller.settings.auto_order)
    for entry in entries:
        if entry.model is None:
            yield finding("models.order", entry=entry.name, reason=entry.reason.rstrip("."), source=source)
    if not any(entry.target for entry in entries):
        yield finding("models.order_empty", source=source)


def team(caller: Caller) -> Iterator[Finding]:
    login = caller.settings.team
    if login is None:
        yield finding("team.none")
        return
    if login.problem:
        yield finding("team.bad", problem=login.problem)
        return
    person = f" as {login.name} ({login.role})" if login.name else ""
    yield finding("team.joined", url=login.url, person=person)
    if caller.settings.team_offline == "local":
        yield finding("team.offline")


def providers(caller: Caller) -> Iterator[Finding]:
    rows = Catalog.load(caller.settings).providers()
    yield from (
        finding("providers.team", label=row.provider.label) if row.team and row.available else _provider(row)
        for row in rows
    )
    if not any(row.available and (row.key_source or row.team) for row in rows):
        yield finding("providers.none")


def _provider(row: ProviderRow) -> Finding:
    label, key_url, url = row.provider.label, row.provider.key_url, redaction.redact(row.base_url)
    if not row.available:
        return finding("providers.off", label=label, reason=row.reason)
    has_own_address = row.base_url_source != "default"
    address = f", address {url} ({row.base_url_source})" if has_own_address else ""
    if not row.key_well_formed:
        compare = f"Compare it with the key at {key_url}." if key_url else "Check the key."
        return finding("providers.form", label=label, source=row.key_source, address=address, compare=compare)
    if urlsplit(row.base_url).hostname in _LOOPBACK:
        if _listens(row.base_url) and not row.key_source:
            return finding("providers.listens", label=label, url=url)
        if not _listens(row.base_url):
            source = row.base_url_source if has_own_address else "config.toml"
            return finding("providers.silent", label=label, url=url, source=source)
    if row.key_source:
        return finding("providers.key", label=label, source=row.key_source, address=address)
    return finding("providers.keyless", label=label, address=address)


def _listens(url: str) -> bool:
    import socket  # few users have a model on this machine

    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), timeout=_CONNECT):
            return True
    except (OSError, ValueError):
        return False
