"""What is set up, what is wrong, and how to fix it. Reads only: changes nothing and shows no key.

A check is a function in `CHECKS`: it takes the caller and yields findings. A check that fails becomes a finding
itself, so that one failure never hides the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from counsel import __version__, logs, run_paths
from counsel import settings as settings_
from counsel.agents import registry
from counsel.agents.definitions import AGENTS
from counsel.agents.detect import Installed
from counsel.caller import Caller
from counsel.engine.store import DATABASE
from counsel.engine.store.sqlite import backups, maintenance
from counsel.errors import AuthenticationFailed, CounselError, RateLimited
from counsel.lazy_dataclass import dataclass
from counsel.paths import exists, isdir
from counsel.types import Endpoint, Limits

if TYPE_CHECKING:
    from counsel.models.catalog import Catalog, ProviderRow
    from counsel.models.transport import Transport

Level: TypeAlias = Literal["ok", "warn", "problem"]
DEPENDENCIES = (
    "aiohttp",
    "click",
    "genai-prices",
    "mcp",
    "msgspec",
    "pillow",
    "rich",
    "starlette",
    "uvicorn",
)
OLDEST_PYTHON = (3, 11)
DATABASE_SECONDS = 10.0
ONLINE = Limits(total=10.0, connect=5.0, first_event=10.0, idle=10.0, attempts=1)
# Where a key is tested, if the list of models needs none.
KEY_PATHS = {"openrouter": "/key"}


@dataclass(frozen=True, slots=True)
class Finding:
    area: str
    level: Level
    what: str
    todo: str = ""

    def as_dict(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if value}


def examine(caller: Caller, *, online: bool = False) -> list[Finding]:
    """Every finding, in the order of the checks."""
    logs.protect(caller.settings)
    findings = [finding for name, check in CHECKS.items() for finding in _run(name, check, caller)]
    return findings + (asyncio.run(reach(caller)) if online else [])


def worst(findings: list[Finding]) -> Level:
    levels = {finding.level for finding in findings}
    return "problem" if "problem" in levels else "warn" if "warn" in levels else "ok"


def _run(name: str, check: Callable[[Caller], Iterator[Finding]], caller: Caller) -> Iterator[Finding]:
    try:
        yield from check(caller)
    except Exception as error:  # noqa: BLE001 — see the module's first lines
        what = logs.redact(f"the check failed: {type(error).__name__}: {error}")
        yield Finding(name, "problem", what, "Please report this.")


# ── the program and its folder ───────────────────────────────────────────────────────────────────────


def versions(_caller: Caller) -> Iterator[Finding]:
    python = platform.python_version()
    yield Finding(
        "versions",
        "ok",
        f"counsel {__version__}, Python {python}, {sys.platform}, SQLite {maintenance.VERSION}",
    )
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("versions", "problem", f"Python {python} is too old", "Install Python 3.11 or newer.")
    installed, missing = [], []
    for name in DEPENDENCIES:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Finding("versions", "ok", ", ".join(installed))
    if missing:
        yield Finding("versions", "problem", f"missing: {', '.join(missing)}", "Install counsel again.")


def settings(caller: Caller) -> Iterator[Finding]:
    """What differs from the defaults, with where it was set."""
    loaded = caller.settings
    for row in settings_.rows():
        if (source := loaded.source(row.name)) != "default":
            value = "set" if row.metadata["secret"] else _value(getattr(loaded, row.name))
            yield Finding("settings", "ok", f"{row.name} = {value} ({source})")
    for problem in () if run_paths.home_problem(caller.env) else loaded.problems:
        yield Finding("settings", "problem", problem, "Correct it; docs/use/settings.md lists the settings.")


def _value(value: object) -> str:
    shown = ", ".join(value) if isinstance(value, tuple) else str(value)
    return logs.redact(shown)


def home(caller: Caller) -> Iterator[Finding]:
    folder = caller.settings.home
    if problem := run_paths.home_problem(caller.env):
        yield Finding("home", "problem", problem, run_paths.HOME_HINT)
        return
    if not exists(folder):
        parent = next(parent for parent in folder.parents if exists(parent))
        if os.access(parent, os.W_OK):
            yield Finding("home", "ok", f"{folder} (created at first use)")
        else:
            yield Finding(
                "home",
                "problem",
                f"{folder} cannot be created",
                "Set COUNSEL_HOME to a writable folder.",
            )
        return
    if not isdir(folder):
        yield Finding("home", "problem", f"{folder} is not a folder", "Move it, or set COUNSEL_HOME.")
    elif not os.access(folder, os.W_OK | os.X_OK):
        todo = "No conversations, jobs or logs are kept. Set COUNSEL_HOME to a writable folder."
        yield Finding("home", "problem", f"{folder} is not writable", todo)
    else:
        yield Finding("home", "ok", str(folder))
    yield from _modes(folder)


def _modes(folder: Path) -> Iterator[Finding]:
    """In a private folder the modes of files do not matter; in an open one each does."""
    entries = list(home_entries(folder))
    foreign = next((path for path, about in entries if about.st_uid != os.geteuid()), None)
    if foreign:
        todo = f"sudo chown -R {os.geteuid()} '{folder}'"
        yield Finding("home", "problem", f"{foreign} belongs to another user", todo)
    loose = [(path, about.st_mode) for path, about in entries if stat.S_IMODE(about.st_mode) & 0o077]
    if not loose or loose[0][0] != folder:
        return
    for path, mode in loose[:20]:
        todo = f"chmod {'700' if stat.S_ISDIR(mode) else '600'} '{path}'"
        yield Finding(
            "home", "problem", f"{path} is accessible to other users (mode {stat.S_IMODE(mode):o})", todo
        )


def home_entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The folder, then everything in it, without what a running daemon deletes meanwhile."""
    for path in (folder, *sorted(folder.rglob("*"))):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISLNK((about := path.lstat()).st_mode):
                yield path, about


def database(caller: Caller) -> Iterator[Finding]:
    from counsel.cli.doctor_repair import size_and_copies  # which uses this module

    path = caller.settings.home / DATABASE
    if not exists(path):
        yield Finding("database", "ok", "none yet (created with the first question)")
        if copies := backups.listed(path):
            todo = "`counsel doctor --repair` restores it."
            yield Finding(
                "database", "warn", f"the database is missing, but there is a backup: {copies[0]}", todo
            )
    else:
        yield _integrity(path)
    yield from size_and_copies(path, caller.settings.max_database_bytes)


def _integrity(path: Path) -> Finding:
    todo = "`counsel doctor --repair` moves it aside and builds a new one from its readable rows and the newest backup."
    try:
        check = maintenance.integrity(path, DATABASE_SECONDS)
    except CounselError as error:
        return Finding("database", "problem", error.message, error.hint or "")
    if check.state == "unfinished":
        return Finding(
            "database", "warn", f"{path}: the check did not finish within {DATABASE_SECONDS:.0f} s"
        )
    if check.state == "unreadable":
        return Finding(
            "database", "problem", f"{path}: {check.detail}", "Check the disk and the file's mode."
        )
    if check.state == "damaged":
        return Finding("database", "problem", f"{path} is damaged: {check.detail}", todo)
    return Finding("database", "ok", f"{path} is intact: schema {check.detail}")


def _socket(folder: Path) -> Path:
    """`run_paths` creates the run folder if it is missing: in that case no daemon runs either."""
    has_run_folder = exists(folder / "run") or (exists(folder) and not os.access(folder, os.W_OK))
    return Path(run_paths.socket(str(folder))) if has_run_folder else folder / "run" / "daemon.sock"


def daemon(caller: Caller) -> Iterator[Finding]:
    """A socket that accepts belongs to a daemon; one that refuses was left behind by a killed daemon and is harmless."""
    path = _socket(caller.settings.home)
    if not exists(path):
        yield Finding("daemon", "ok", "not running (it starts on demand)")
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            yield Finding("daemon", "ok", "not running (the last one was killed)")
        except OSError as error:
            todo = "`counsel daemon stop` stops it; the next client starts another."
            yield Finding("daemon", "problem", f"{path} does not answer: {error.strerror or error}", todo)
        else:
            yield Finding("daemon", "ok", f"running ({path})")


def daemon_runs(caller: Caller) -> bool:
    return any(finding.what.startswith("running (") for finding in daemon(caller))


# ── models and agents ─────────────────────────────────────────────────────────────────────────────────


def _catalog(caller: Caller) -> Catalog:
    from counsel.models.catalog import Catalog  # the other checks work without it

    return Catalog.load(caller.settings)


def models(caller: Caller) -> Iterator[Finding]:
    catalog = _catalog(caller)
    rows = catalog.models()
    available = sum(row.available for row in rows)
    yield Finding("models", "ok", f"{len(rows)} known, {available} available now")
    for problem in catalog.problems:
        todo = (
            f"Correct it in {caller.settings.home / 'config.toml'} or the environment; everything else works."
        )
        yield Finding("models", "problem", logs.redact(problem), todo)
    yield from _order(catalog, caller)


def _order(catalog: Catalog, caller: Caller) -> Iterator[Finding]:
    """Entries of the user's order for `auto` that match no model."""
    from counsel.models import auto  # see above

    order = caller.settings.auto_order
    for entry in auto.explain(catalog, auto.Needs(), order) if order else ():
        if entry.model is None:
            where = caller.settings.source("auto_order")
            todo = "`counsel models` lists the names; auto skips this entry."
            yield Finding("models", "warn", f"auto_order has {entry.name}: {entry.reason} ({where})", todo)


def providers(caller: Caller) -> Iterator[Finding]:
    rows = _catalog(caller).providers()
    yield from map(_provider, rows)
    if not any(row.available and row.provider.key_required for row in rows):
        todo = "Set one of the variables above, for example OPENAI_API_KEY; `counsel demo` needs none."
        yield Finding("providers", "warn", "no provider has a key", todo)


def _provider(row: ProviderRow) -> Finding:
    label = row.provider.label
    if not row.available:
        return Finding("providers", "ok", f"{label}: not set up", row.reason)
    where = (
        ""
        if row.base_url_source == "default"
        else f", address {logs.redact(row.base_url)} ({row.base_url_source})"
    )
    if not row.key_well_formed:
        todo = (
            f"Compare it with the key at {row.provider.key_url}."
            if row.provider.key_url
            else "Check the key."
        )
        return Finding(
            "providers",
            "warn",
            f"{label}: {row.key_source} does not look like a key of this provider{where}",
            todo,
        )
    key = f"key from {row.key_source}" if row.key_source else "no key needed"
    return Finding("providers", "ok", f"{label}: {key}{where}")


def agents(caller: Caller) -> Iterator[Finding]:
    for driver in registry.askable_agents().values():
        label, program = driver.agent.label, driver.probe(caller)
        if program.path is None:
            yield Finding(
                "agents", "ok", f"{label}: `{driver.agent.command}` is not on the PATH", program.reason
            )
        elif program.logged_in is False:
            yield Finding("agents", "warn", f"{label}: {_program(program)}", program.reason)
        else:
            yield Finding("agents", "ok", f"{label}: {_program(program)} ({program.reason})")


def registered(caller: Caller) -> Iterator[Finding]:
    """counsel's entries in the agents' files, and files that cannot be read."""
    from counsel.agents.self_entry import is_ours
    from counsel.servers import Servers  # the other checks work without it
    from counsel.servers.listing import problem_text

    seen = Servers.here(caller.cwd, caller.env).listing()
    ours = [entry for entry in seen.servers if is_ours(entry.server) and entry.shadowed_by is None]
    labels = dict.fromkeys(AGENTS[entry.agent].label for entry in ours)
    if labels:
        yield Finding("setup", "ok", f"counsel is registered with {', '.join(labels)}")
    else:
        yield Finding(
            "setup", "ok", "counsel is not registered with any agent", "`counsel setup` registers it."
        )
    for entry in ours:
        program = Path(entry.server.command)
        if program.is_absolute() and not exists(program):
            what = f"{AGENTS[entry.agent].label} cannot start counsel: {program} does not exist"
            yield Finding("setup", "problem", what, "`counsel setup` updates the entry.")
    for problem in seen.problems:
        todo = "Correct it by hand; the agent may refuse to start otherwise."
        yield Finding("setup", "warn", logs.redact(problem_text(problem)), todo)


def _program(program: Installed) -> str:
    return f"{program.path} {program.version or ''}".strip()


CHECKS: dict[str, Callable[[Caller], Iterator[Finding]]] = {
    "versions": versions,
    "settings": settings,
    "home": home,
    "database": database,
    "daemon": daemon,
    "models": models,
    "providers": providers,
    "agents": agents,
    "setup": registered,
}


# ── --online ─────────────────────────────────────────────────────────────────────────────────────────


async def reach(caller: Caller) -> list[Finding]:
    """Request the models of every provider that is set up, concurrently: can it be reached, does it accept the key?"""
    from counsel.models.transport import Transport  # aiohttp is for --online only

    catalog = _catalog(caller)
    ready = [catalog.endpoint(row.provider.name) for row in catalog.providers() if row.available]
    if not ready:
        return [Finding("online", "ok", "no provider is set up")]
    transport = Transport()
    try:
        return list(await asyncio.gather(*(_reach(transport, endpoint) for endpoint in ready)))
    finally:
        await transport.close()


async def _reach(transport: Transport, endpoint: Endpoint) -> Finding:
    provider = endpoint.provider
    began = time.monotonic()
    try:
        await transport.get_json(endpoint, _path(endpoint), ONLINE)
    except AuthenticationFailed as error:
        todo = (
            f"Get a new key at {provider.key_url}." if provider.key_url else error.hint or "Set another key."
        )
        return Finding("online", "problem", f"{provider.label}: the key is not accepted", todo)
    except RateLimited:
        return Finding(
            "online",
            "warn",
            f"{provider.label}: reached, but this key is rate-limited at the moment",
            "Try again later.",
        )
    except CounselError as error:
        todo = error.hint or "Check the network and the provider's address."
        return Finding("online", "problem", f"{provider.label}: {logs.redact(error.message)}", todo)
    accepted = ", key accepted" if endpoint.key else ""
    return Finding("online", "ok", f"{provider.label}: reached in {time.monotonic() - began:.1f} s{accepted}")


def _path(endpoint: Endpoint) -> str:
    from counsel.models.wires import WIRES  # for --online only

    return KEY_PATHS.get(endpoint.provider.name) or WIRES[endpoint.provider.wire].models_path
