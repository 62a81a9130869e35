"""Files that are not sent to anybody unless the user names them: the table, and how it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from counsel.agents.base import place
from counsel.caller import Caller


@dataclass(frozen=True, slots=True)
class Row:
    """`patterns` match the last parts of a real path, in lower case; `x/**` is all that is below a folder `x`."""

    why: str
    patterns: tuple[str, ...]
    except_: tuple[str, ...] = ()
    content: str = ""  # only files that hold this (a regular expression) are meant


NAMES: tuple[Row, ...] = (
    Row(
        "an environment file often holds keys",
        (".env", ".env.*", ".env-*", ".env_*", ".envrc", "*.env"),
        except_=("*.example", "*.sample", "*.template", "*.dist"),
    ),
    Row(
        "it is a private key",
        ("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.ppk"),
    ),
    Row("it is a key store", ("*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db")),
    Row("it belongs to SSH", (".ssh/**",)),
    Row("it belongs to GnuPG", (".gnupg/**",)),
    Row("it holds Claude Code's login", (".claude/.credentials.json", ".credentials.json", ".claude.json", ".claude.json.*")),
    Row("it holds Codex's login", (".codex/auth.json",)),
    Row(
        "it holds Gemini CLI's login",
        (".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/mcp-oauth-tokens*.json"),
    ),
    Row("it holds Cursor's login", (".config/cursor/auth.json", ".cursor/auth.json", ".cursor/cli-config.json")),
    Row("it holds passwords", (".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".htpasswd", ".authinfo", ".authinfo.gpg")),
    Row("it holds cloud credentials", (".aws/credentials", ".aws/sso/**", ".aws/cli/**", ".azure/**", ".config/gcloud/**", "application_default_credentials.json", ".oci/config", ".boto", ".s3cfg")),
    Row("it holds a cluster's credentials", (".kube/**", "kubeconfig", "*.kubeconfig")),
    Row("it holds GitHub's token", (".config/gh/hosts.yml", "gh/hosts.yml", ".config/hub", ".config/github-copilot/**")),
    Row("it holds a registry's login", (".docker/config.json", ".config/containers/auth.json", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials")),
    Row("it holds a token", (".vault-token", ".terraform.d/credentials.tfrc.json", ".config/op/**", ".huggingface/token", ".cache/huggingface/token")),
    Row("it holds a package registry's token", (".npmrc", ".yarnrc", ".yarnrc.yml"), content=r"(?im)_authToken|_auth\s*=|_password|npmAuth(?:Token|Ident)"),
    Row("it holds a package registry's password", (".pypirc", "pip.conf"), content=r"(?im)^[ \t]*password[ \t]*[=:]|://[^/\s:@]+:[^/\s@]+@"),
)  # fmt: skip

# Whatever the name. Each begins with fixed words, which are found quickly; `\s*` after `^` would take an hour for a megabyte of empty lines. The body is asked for too: code that merely mentions the header is no key.
CONTENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "it holds a private key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?s:.{0,400}?)[A-Za-z0-9+/]{32}",
            re.ASCII,
        ),
    ),
    ("it is a PuTTY private key", re.compile(r"\APuTTY-User-Key-File-\d")),
    ("it holds a cluster's client key", re.compile(r'client-key-data"?:[ \t]*"?[A-Za-z0-9+/]{32}')),
)


def by_name(path: Path, real: Path, home: Path, caller: Caller) -> str | None:
    """Why a file is not sent, judged by what it is called; None: nothing speaks against it."""
    if _named_as_allowed(real, home, caller):
        return None
    own = caller.settings.home
    if own.is_absolute() and real.is_relative_to(os.path.realpath(own)):
        return "it is in counsel's own folder"
    if any(_same(real, login) for login in _logins(caller)):
        return "it holds an agent's login"
    return next((row.why for row in _rows(path, real) if not row.content), None)


def by_content(text: str, path: Path, home: Path, caller: Caller) -> str | None:
    """Why a file is not sent, judged by its whole text (a range of lines may leave out the telling one)."""
    for why in _tell(text, path):
        return None if _named_as_allowed(path, home, caller) else why
    return None


def hint(path: Path) -> str:
    return f"If it must be sent, add {path} to COUNSEL_ALLOWED_SECRET_FILES."


def _tell(text: str, path: Path) -> Iterator[str]:
    yield from (why for why, pattern in CONTENTS if pattern.search(text))
    yield from (row.why for row in _rows(path, path) if row.content and re.search(row.content, text))


def _rows(*paths: Path) -> Iterator[Row]:
    for parts in {tuple(part.lower() for part in path.parts) for path in paths}:
        for row in NAMES:
            if _matches(parts, row.patterns) and not _matches(parts, row.except_):
                yield row


def _matches(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return any(
        any(_ends_with(parts[:end], folder) for end in range(1, len(parts)))
        if (folder := pattern.removesuffix("/**")) != pattern
        else _ends_with(parts, pattern)
        for pattern in patterns
    )


def _ends_with(parts: tuple[str, ...], pattern: str) -> bool:
    wanted = pattern.split("/")
    tail = parts[-len(wanted) :]
    return len(tail) == len(wanted) and all(map(fnmatchcase, tail, wanted))


def _logins(caller: Caller) -> tuple[Path, ...]:
    """The agents' login files where the caller's own variables have moved them."""
    at = place(caller.env, caller.cwd)
    return (
        at.claude_dir() / ".credentials.json",
        at.claude_json(),
        at.codex_dir() / "auth.json",
        at.gemini_dir() / "oauth_creds.json",
    )


def _named_as_allowed(real: Path, home: Path, caller: Caller) -> bool:
    for entry in caller.settings.allowed_secret_files:
        if "/" not in entry:
            if real.name == entry:
                return True
        elif _same(real, home / entry[2:] if entry.startswith("~/") else Path(entry)):
            return True
    return False


def _same(real: Path, other: Path) -> bool:
    """Also true for a second name (hard link) of the same file."""
    if not other.is_absolute():
        return False
    try:
        return real == Path(os.path.realpath(other)) or real.samefile(other)
    except (OSError, ValueError):
        return False
