"""`--database URL` of long-running commands, without a password: other users can read their command line."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, urlsplit

import click

from counsel.errors import InvalidArgument

database_option = click.option(
    "--database", metavar="URL", help="PostgreSQL that a team's servers share: postgresql://USER@HOST/NAME."
)


def use_database(url: str | None) -> None:
    """Make the URL this process's database setting. It overrides the environment and the files."""
    if url is None:
        return
    if _has_password(url):
        raise InvalidArgument(
            "--database must not contain a password: other users of this machine can read the command line.",
            hint="Put the whole URL in COUNSEL_DATABASE, or the password in the file that PGPASSFILE names.",
        )
    os.environ["COUNSEL_DATABASE"] = url


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        in_url = bool(parts.password) or bool(parse_qs(parts.query).get("password"))
    except ValueError:  # psycopg's error could quote the password
        in_url = True
    return in_url or re.search(r"(^|\s)password\s*=", url) is not None
