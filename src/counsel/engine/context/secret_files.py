"""The table of files that are never sent unless the user allows them by name, and its lookup."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from counsel.agents.definitions import workspace_of
from counsel.caller import Caller
from counsel.engine.context import secret_content, uploads
from counsel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`patterns` match the last parts of a real path, in lower case and without what marks a copy (see `names`); `x/**`
    matches everything below a folder `x`."""

    why: str
    patterns: tuple[str, ...]
    except_: tuple[str, ...] = ()
    content: str = ""  # only files that contain this regular expression


_LOGIN_IN_URL = r"://[^/\s:@]{1,200}:[^/\s@]{1,400}@|://(?:gh[pousr]_|github_pat_|glpat-)[\w-]{10,200}@"
_VALUE = r"""[ \t]{0,40}[=:][ \t]{0,40}["']?(?![<{$\s"'])[^\s"']{4,}"""

NAMES: tuple[Row, ...] = (
    Row(
        "an environment file often holds keys",
        (".env", ".env.*", ".env-*", ".env_*", ".envrc", "*.env", "*.env.local", ".dev.vars", ".dev.vars.*"),
        except_=("*.example", "*.sample", "*.template", "*.dist"),
    ),
    Row(
        "it is a private key",
        ("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.ppk", "*.agekey", "master.key", "config/credentials/*.key"),
    ),
    Row("it is a key store", ("*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db")),
    Row(
        "its name suggests that it contains secrets",
        ("secrets.toml", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.ini", "secrets.env", "secrets.properties"),
    ),
    Row("it belongs to SSH", (".ssh/**",)),
    Row("it belongs to GnuPG", (".gnupg/**",)),
    Row("it contains Claude Code's login", (".claude/.credentials.json", ".credentials.json", ".claude.json", ".claude.json.*")),
    Row("it contains Codex's login", (".codex/auth.json",)),
    Row(
        "it contains Gemini CLI's login",
        (".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/mcp-oauth-tokens*.json"),
    ),
    Row("it contains Cursor's login", (".config/cursor/auth.json", ".cursor/auth.json", ".cursor/cli-config.json")),
    Row("it contains an agent's login", ("opencode/auth.json", "opencode/mcp-auth.json", ".qwen/oauth_creds.json", "goose/secrets.yaml", "crush/crush.json", "amp/secrets.json")),
    Row("it contains passwords", (".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".htpasswd", ".authinfo", ".authinfo.gpg", ".smbcredentials", ".passwd-s3fs", ".msmtprc", ".fetchmailrc", ".vault_pass", ".vault-pass", ".vault_password", ".vault_pass.txt", "vault_pass.txt", "etc/shadow", "etc/gshadow")),
    Row("it contains cloud credentials", (".aws/credentials", ".aws/sso/**", ".aws/cli/**", ".azure/**", ".config/gcloud/**", "application_default_credentials.json", "credentials.json", "client_secret*.json", "service-account*.json", "service_account*.json", "serviceaccount*.json", "*-firebase-adminsdk-*.json", ".oci/config", ".boto", ".s3cfg", "rclone.conf", ".databrickscfg", ".pulumi/credentials.json", "doctl/config.yaml", "hcloud/cli.toml", ".fly/config.yml", "com.vercel.cli/auth.json", "netlify/config.json", ".railway/config.json"),
        except_=("*.example.json", "*.sample.json", "*.template.json", "*.example", "*.sample", "*.template", "*.dist")),
    Row("it contains a cluster's credentials", (".kube/**", "kubeconfig", "*.kubeconfig")),
    Row("it contains GitHub's token", (".config/gh/hosts.yml", "gh/hosts.yml", ".config/hub", ".config/github-copilot/**", "glab-cli/config.yml")),
    Row("it contains a registry's login", (".docker/config.json", ".config/containers/auth.json", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", "composer/auth.json", ".composer/auth.json", ".ivy2/.credentials", ".sbt/.credentials")),
    Row("it contains a token", (".vault-token", ".terraform.d/credentials.tfrc.json", ".config/op/**", ".huggingface/token", ".cache/huggingface/token")),
    Row("it is Terraform state, which contains secrets in plain text", ("*.tfstate",)),
    Row("it belongs to a browser's profile", ("logins.json", "key4.db", "cookies.sqlite")),
    Row("a shell history can contain passwords", (".bash_history", ".zsh_history", ".sh_history", ".fish_history", "fish/fish_history", ".psql_history", ".mysql_history", ".rediscli_history", ".node_repl_history", ".python_history", ".sqlite_history")),
    Row("it contains a package registry's token", (".npmrc", ".yarnrc", ".yarnrc.yml"), content=r"(?im)_authToken|_auth\s*=|_password|npmAuth(?:Token|Ident)"),
    Row("it contains a package registry's password", (".pypirc", "pip.conf", "uv.toml"), content=r"(?im)^[ \t]*password[ \t]*[=:]|://[^/\s:@]+:[^/\s@]+@"),
    Row("it contains a password", (".gitconfig", ".git/config", ".gitmodules", ".git/fetch_head"), content=_LOGIN_IN_URL),
    Row("it contains a password", ("*.tfvars", "*.tfvars.json"), content=r"(?i)(?:password|passwd|secret|token|api_?key|private_?key)[\"']?" + _VALUE),
    Row("it contains a password", ("gradle.properties", ".m2/settings.xml", "nuget.config", ".aider.conf.yml"), content=r"(?i)(?:password|token|api-?key|cleartextpassword)[\w.-]{0,40}[\"']?(?:" + _VALUE + r"|>[ \t]{0,40}(?!\$)[^<\s]{4,})"),
    Row("it contains the database's password", ("wp-config.php",), content=r"""(?i)['"]DB_PASSWORD['"]\s{0,40},\s{0,40}['"](?!password_here)[^'"]+['"]"""),
)  # fmt: skip

# Endings that editors, users and package managers add to the name of a copy.
_ENDINGS = re.compile(
    r"(?:~|\.~\d+~|[._ -](?:bak|backup|bkp|bck|old|older|orig|original|save|saved|prev|previous|copy|copie|kopie|tmp|temp"
    r"|sw[a-z]|rej|disabled|off|dpkg-\w+|rpm(?:save|new|orig)|ucf-\w+|pacsave|pacnew|txt|\d{1,14}|\d{4}-\d\d-\d\d)"
    r"| copy \d+| \(\d+\)| - copy(?: \(\d+\))?)$"
)
_BEFORE_EXTENSION = re.compile(
    r"^(.+?)(?: copy(?: \d+)?| \(\d+\)|[-_. ](?:copy|backup|bak|old|orig|\d{8}))(\.[a-z0-9]+)$"
)
_COPIES = 4  # levels of copies of copies


def names(part: str) -> frozenset[str]:
    """The name and all that it may be a copy of: `#.env#`, `.env~`, `.ENV.bak`, `.id_rsa.swp`, `key copy.pem`."""
    name = unicodedata.normalize("NFKC", part).casefold().strip().rstrip(". ")
    candidates = {name}
    for _ in range(_COPIES):
        candidates |= {original for candidate in candidates for original in _originals(candidate) if original}
    return frozenset(candidates)


def _originals(name: str) -> Iterator[str]:
    yield _ENDINGS.sub("", name)
    yield _BEFORE_EXTENSION.sub(r"\1\2", name)
    if name.startswith("#") and name.endswith("#"):
        yield name[1:-1]
    if name.startswith(".#"):
        yield name[2:]
    if re.fullmatch(r"\..+\.sw[a-z]", name):  # Vim adds a leading dot, also to hidden files
        yield name[1:-4]


def by_name(path: Path, real: Path, status: os.stat_result, home: Path, caller: Caller) -> str | None:
    """Why a file's location and name forbid sending it, or None. `status` is the open file's."""
    if _named_as_allowed(real, home, caller):
        return None
    own = caller.settings.home
    if own.is_absolute() and real.is_relative_to(os.path.realpath(own)) and not _is_upload(real, caller):
        return "it is in counsel's own folder"
    if any(_same(real, login) for login in _logins(caller)):
        return "it contains an agent's login"
    if status.st_nlink > 1 and (original := _other_name(status, home, caller)):
        return f"it is a hard link to {original}"
    return next((row.why for row in _rows(path, real) if not row.content), None)


def _is_upload(real: Path, caller: Caller) -> bool:
    """Whether this caller uploaded the file for its question."""
    return real in caller.consented_files and uploads.is_upload(real, caller.settings.home)


def _other_name(status: os.stat_result, home: Path, caller: Caller) -> Path | None:
    """The secret file, of counsel or the user, to which this file is a hard link."""
    for secret in chain(_below(caller.settings.home), _logins(caller), _in_the_home(home)):
        try:
            secret_status = secret.lstat()
        except (OSError, ValueError):
            continue
        if (secret_status.st_dev, secret_status.st_ino) == (status.st_dev, status.st_ino):
            return secret
    return None


_MOST = 5_000  # files to check in one folder


def _below(folder: Path) -> Iterator[Path]:
    count = 0
    for above, _, files in os.walk(folder):
        for name in files:
            yield Path(above, name)
        count += len(files)
        if count > _MOST:
            return


def _in_the_home(home: Path) -> Iterator[Path]:
    for row in NAMES:
        for pattern in row.patterns:
            if (folder := pattern.removesuffix("/**")) != pattern:
                yield from _below(home / folder)
            elif "*" not in pattern:
                yield home / pattern
    for folder in (".local/share", ".config"):
        yield from (
            home / folder / name for row in NAMES for name in row.patterns if "/" in name and "*" not in name
        )
    yield from home.glob(".env*")
    yield from home.glob(".claude.json*")


def by_content(text: str, path: Path, home: Path, caller: Caller) -> str | None:
    """Why a file's whole text forbids sending it, or None. A line range may omit the secret itself."""
    for why in _reasons(text, path, caller):
        return None if _named_as_allowed(path, home, caller) else why
    return None


def hint(path: Path, caller: Caller) -> str:
    option = " name it with -f and --allow-secret, or" if caller.client == "cli" else ""
    return f"If it must be sent,{option} add {path} to COUNSEL_ALLOWED_SECRET_FILES."


_KEYS = ("_API_KEY", "_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST = 16  # characters of a key; shorter values may be words


def _reasons(text: str, path: Path, caller: Caller) -> Iterator[str]:
    yield from secret_content.reasons(text)
    for name, value in caller.env.items():
        if name.endswith(_KEYS) and len(value) >= _SHORTEST and value in text:
            yield f"it contains the value of {name}"
    yield from (row.why for row in _rows(path, path) if row.content and re.search(row.content, text))


def _rows(*paths: Path) -> Iterator[Row]:
    for parts in {tuple(map(names, path.parts)) for path in paths}:
        for row in NAMES:
            if _matches(parts, row.patterns) and not _matches(parts, row.except_):
                yield row


def _matches(parts: tuple[frozenset[str], ...], patterns: tuple[str, ...]) -> bool:
    return any(
        any(_ends_with(parts[:end], folder) for end in range(1, len(parts)))
        if (folder := pattern.removesuffix("/**")) != pattern
        else _ends_with(parts, pattern)
        for pattern in patterns
    )


def _ends_with(parts: tuple[frozenset[str], ...], pattern: str) -> bool:
    patterns = pattern.split("/")
    tail = parts[-len(patterns) :]
    return len(tail) == len(patterns) and all(
        any(fnmatchcase(name, part) for name in names_) for names_, part in zip(tail, patterns, strict=True)
    )


def _logins(caller: Caller) -> tuple[Path, ...]:
    """The agents' login files, in the places that the caller's variables name."""
    workspace = workspace_of(caller.env, caller.cwd)
    return (
        workspace.claude_dir() / ".credentials.json",
        workspace.claude_json(),
        workspace.codex_dir() / "auth.json",
        workspace.gemini_dir() / "oauth_creds.json",
    )


def _named_as_allowed(real: Path, home: Path, caller: Caller) -> bool:
    if real in caller.consented_secrets:
        return True
    for entry in caller.settings.allowed_secret_files:
        if "/" not in entry:
            if real.name == entry:
                return True
        elif _same(real, home / entry[2:] if entry.startswith("~/") else Path(entry)):
            return True
    return False


def _same(real: Path, path: Path) -> bool:
    """Whether both paths are the same file, perhaps through a hard link."""
    if not path.is_absolute():
        return False
    try:
        return real == Path(os.path.realpath(path)) or real.samefile(path)
    except (OSError, ValueError):
        return False
