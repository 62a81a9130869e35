"""Which servers of a team can continue each other's jobs: those that have the same keys for the same providers.

Other settings do not count. Most belong to one machine (addresses, folders, time limits of its clients, logs), and during an
upgrade the servers' settings and catalogs differ for a while.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

from counsel.caller import EMBEDDED
from counsel.models.catalog import Catalog
from counsel.settings import Settings

_EMBEDDED_ADDRESS = "COUNSEL_LOCAL_BASE_URL"  # each server starts its own embedded model, at another address


def of(settings: Settings, secret: bytes) -> str:
    """Equal for servers with the same keys; reveals nothing about them."""
    return hmac.new(secret, repr(sorted(_keys(settings))).encode(), hashlib.sha256).hexdigest()[:32]


def _keys(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """A provider's address counts where a person chose it: the catalog's own may differ between releases."""
    catalog = Catalog.load(settings)
    for row in catalog.providers():
        chosen = row.base_url if row.base_url_source != "default" else ""
        if row.provider.base_url_env == _EMBEDDED_ADDRESS and EMBEDDED in settings.env:
            continue
        if row.available and (row.key_source or chosen):
            yield row.provider.name, chosen, catalog.endpoint(row.provider.name).key or ""
