"""Which servers of a team can continue each other's jobs: those with the same keys for the same providers.

Other settings do not count. Most belong to one machine (addresses, folders, its clients' time limits, logs), and during
an upgrade the servers' settings and catalogs differ for a while.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

from counsel.caller import EMBEDDED
from counsel.models.catalog import Catalog
from counsel.settings import Settings

_EMBEDDED_ADDRESS = "COUNSEL_LOCAL_BASE_URL"  # differs, as each server starts its own embedded model


def of(settings: Settings, secret: bytes) -> str:
    """A hash that is equal for servers with the same keys, and reveals nothing about the keys."""
    return hmac.new(secret, repr(sorted(_keys(settings))).encode(), hashlib.sha256).hexdigest()[:32]


def _keys(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """The keys with their providers and addresses. An address from the catalog is left out: it may differ between
    releases."""
    catalog = Catalog.load(settings)
    for row in catalog.providers():
        base_url = row.base_url if row.base_url_source != "default" else ""
        if row.provider.base_url_env == _EMBEDDED_ADDRESS and EMBEDDED in settings.env:
            continue
        if row.available and (row.key_source or base_url):
            yield row.provider.name, base_url, catalog.endpoint(row.provider.name).key or ""
