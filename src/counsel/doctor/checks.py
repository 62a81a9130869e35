"""What is set up, what is wrong, and how to fix it. Reads only: changes nothing and shows no key.

A check is a function in `CHECKS`: it takes the caller and yields findings. If a check raises, the error becomes a
finding, so that one failure never hides the others. `messages.py` has the sentences.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from counsel import __version__, redaction, run_paths
from counsel import settings as settings_
from counsel.agents import registry
from counsel.agents.definitions import AGENTS
from counsel.agents.detect import Installed
from counsel.caller import Caller
from counsel.doctor import budgets, files, models, packages
from counsel.doctor.messages import Finding, Level, finding
from counsel.engine.store.sqlite import maintenance
from counsel.paths import exists

OLDEST_PYTHON = (3, 11)


def examine(caller: Caller, *, online: bool = False) -> list[Finding]:
    """Run every check; return the findings in the order of the checks."""
    redaction.protect(caller.settings)
    findings = [entry for name, check in CHECKS.items() for entry in _run(name, check, caller)]
    return findings + _test_connections(caller) if online else findings


def _test_connections(caller: Caller) -> list[Finding]:
    import asyncio  # for --online only

    from counsel.doctor.online import reach

    return asyncio.run(reach(caller))


def document(findings: list[Finding]) -> dict[str, object]:
    """The document that `counsel doctor --json` prints and `/api/doctor` returns."""
    counts = Counter[str](entry.level for entry in findings)
    return {
        "level": worst(findings),
        "counts": {level: counts[level] for level in get_args(Level)},
        "findings": [entry.as_dict() for entry in findings],
    }


def worst(findings: list[Finding]) -> Level:
    levels = {entry.level for entry in findings}
    return "problem" if "problem" in levels else "warn" if "warn" in levels else "ok"


def _run(name: str, check: Callable[[Caller], Iterator[Finding]], caller: Caller) -> Iterator[Finding]:
    try:
        yield from check(caller)
    except Exception as error:  # noqa: BLE001 - see the module's docstring
        message = redaction.redact(f"the check failed: {type(error).__name__}: {error}")
        yield Finding(name, "problem", message, "Please report this.")


def versions(_caller: Caller) -> Iterator[Finding]:
    python = platform.python_version()
    yield finding(
        "versions.program",
        counsel=__version__,
        python=python,
        system=sys.platform,
        sqlite=maintenance.VERSION,
    )
    if sys.version_info < OLDEST_PYTHON:
        yield finding("versions.python", python=python)
    versions = {name: packages.version(name) for name in packages.required()}
    lines = [f"{name} {version}" for name, version in versions.items() if version]
    yield finding("versions.packages", packages=", ".join(lines))
    if missing := [name for name, version in versions.items() if not version]:
        yield finding("versions.missing", packages=", ".join(missing))


def settings(caller: Caller) -> Iterator[Finding]:
    """Settings that differ from the defaults, with their sources."""
    user_settings = caller.settings
    for row in settings_.rows():
        if (source := user_settings.source(row.name)) != "default":
            value = "set" if row.metadata["secret"] else _value(getattr(user_settings, row.name))
            yield finding("settings.value", name=row.name, value=value, source=source)
    for problem in () if run_paths.home_problem(caller.env) else user_settings.problems:
        yield finding("settings.bad", problem=problem)


def _value(value: object) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return redaction.redact(text)


def agents(caller: Caller) -> Iterator[Finding]:
    for driver in registry.askable_agents().values():
        label, program = driver.agent.label, driver.probe(caller)
        if program.path is None:
            yield finding("agents.off", label=label, command=driver.agent.command, reason=program.reason)
            continue
        key = {True: "agents.ok", False: "agents.login", None: "agents.unknown"}[program.logged_in]
        yield finding(key, label=label, program=_program(program), reason=program.reason)


def _program(program: Installed) -> str:
    return f"{program.path} {program.version or ''}".strip()


def registrations(caller: Caller) -> Iterator[Finding]:
    """counsel's entries in the agents' files, and files that cannot be read."""
    from counsel.agents.self_entry import is_ours
    from counsel.servers import Servers  # the other checks do not need it
    from counsel.servers.listing import problem_text

    listing = Servers.here(caller.cwd, caller.env).listing()
    ours = [entry for entry in listing.servers if is_ours(entry.server) and entry.shadowed_by is None]
    broken = {entry.agent: _start_problem(entry.server.command, caller) for entry in ours}
    labels = dict.fromkeys(AGENTS[agent].label for agent, key in broken.items() if not key)
    if labels:
        yield finding("setup.ok", agents=", ".join(labels))
    elif not ours:
        yield finding("setup.off")
    for entry in ours:
        if key := _start_problem(entry.server.command, caller):
            yield finding(key, agent=AGENTS[entry.agent].label, program=entry.server.command)
    for problem in listing.problems:
        yield finding("setup.unreadable", problem=redaction.redact(problem_text(problem)))


def _start_problem(command: str, caller: Caller) -> str:
    """The message's key for a program that cannot be started; "" if it can."""
    import shutil  # few entries name a program without its path

    if Path(command).is_absolute():
        return "" if exists(command) else "setup.gone"
    return "" if shutil.which(command, path=caller.env.get("PATH", "")) else "setup.path"


CHECKS: dict[str, Callable[[Caller], Iterator[Finding]]] = {
    "versions": versions,
    "settings": settings,
    "budgets": budgets.budgets,
    "home": files.home,
    "database": files.database,
    "daemon": files.daemon,
    "team": models.team,
    "models": models.models,
    "providers": models.providers,
    "agents": agents,
    "setup": registrations,
}
