"""Every message of `counsel doctor`, in one table. docs/use/troubleshooting.md is generated from it.

A message is true in every state in which it is shown: `ok` is for what was tested and works, `info` for facts that were
not tested, `off` for what is not set up.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from counsel.records import Record
from counsel.run_paths import HOME_HINT

Level: TypeAlias = Literal["ok", "info", "off", "warn", "problem"]


class Finding(Record):
    area: str
    level: Level
    what: str
    todo: str = ""

    def as_dict(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if value}


class Message(NamedTuple):
    level: Level
    what: str
    todo: str = ""
    example: str = ""  # for the documentation, if the message only passes on another one


# area.name → level, finding, what to do; {fields} are filled in
MESSAGES: dict[str, Message] = {
    "versions.program": Message("ok", "counsel {counsel}, Python {python}, {system}, SQLite {sqlite}"),
    "versions.python": Message("problem", "Python {python} is too old", "Install Python 3.11 or newer."),
    "versions.packages": Message("info", "{packages}"),
    "versions.missing": Message("problem", "missing: {packages}", "Install counsel again."),
    "settings.value": Message("info", "{name} = {value} ({source})"),
    "settings.bad": Message(
        "problem",
        "{problem}",
        "Correct it; docs/use/settings.md lists the settings.",
        "config.toml: unknown setting 'prot', ignored.",
    ),
    "budgets.used_up": Message(
        "warn",
        "{title} of {limit} is used up: {spent} spent",
        "Paid calls are refused until {until}. To spend more, raise {setting}.",
    ),
    "budgets.unknown_provider": Message(
        "warn",
        "{title} limits nothing: there is no such provider",
        "Correct the name; the providers are {providers}.",
    ),
    "home.unusable": Message(
        "problem",
        "{problem}",
        HOME_HINT,
        "COUNSEL_HOME is /srv/x: it does not exist, and no folder can be made in /srv.",
    ),
    "home.none": Message("off", "{folder} does not exist yet; the first question creates it"),
    "home.uncreatable": Message(
        "problem",
        "{folder} cannot be created",
        "Nothing is stored. Set COUNSEL_HOME to a folder that you can write to.",
    ),
    "home.unwritable": Message(
        "problem",
        "{folder} is not writable",
        "No conversations, jobs or logs are kept. Set COUNSEL_HOME to a writable folder.",
    ),
    "home.ok": Message("ok", "{folder} is writable"),
    "home.foreign": Message("problem", "{path} belongs to another user", "sudo chown -R {uid} '{folder}'"),
    "home.open": Message(
        "problem", "{path} is accessible to other users (mode {mode})", "chmod {private_mode} '{path}'"
    ),
    "database.none": Message("off", "no database yet; the first question creates it"),
    "database.memory": Message(
        "off", "no database: {folder} cannot be written", "Questions are answered, but nothing is stored."
    ),
    "database.missing": Message(
        "warn",
        "the database is missing, but there is a backup: {backup}",
        "`counsel doctor --repair` restores it.",
    ),
    "database.ok": Message("ok", "{path} is intact: schema {schema}"),
    "database.damaged": Message(
        "problem",
        "{path} is damaged: {detail}",
        "`counsel doctor --repair` moves it aside and builds a new one from its readable rows and the newest backup.",
    ),
    "database.unreadable": Message("problem", "{path}: {detail}", "Check the disk and the file's mode."),
    "database.unfinished": Message(
        "warn",
        "{path}: the check did not finish within {seconds:.0f} s",
        "Try again when the disk is less busy.",
    ),
    "database.refused": Message(
        "problem", "{problem}", "{hint}", "counsel.db was written by a newer counsel (schema 9)."
    ),
    "database.shared": Message("ok", "{database}: PostgreSQL {server}, schema {schema}"),
    "database.unusable": Message(
        "problem",
        "{problem}",
        "{hint}",
        "The PostgreSQL database counsel on db.example.com cannot be used: connection refused.",
    ),
    "daemon.none": Message("off", "not running; the next question or MCP client starts it"),
    "daemon.left": Message(
        "off",
        "not running; {path} is left over from an earlier one, and the next question or MCP client replaces it",
    ),
    "daemon.ok": Message("ok", "running ({path})"),
    "daemon.silent": Message(
        "problem",
        "{path} does not answer: {reason}",
        "Try again. If it stays silent, end its process (`lsof -t '{path}'` shows which); the next question or MCP client starts another.",
    ),
    "models.known": Message("info", "{count} known, {available} from providers that are set up"),
    "models.bad": Message(
        "problem",
        "{problem}",
        "Correct it in {config} or the environment; everything else works.",
        "config.toml [aliases]: the alias 'opus' names 'claude-opsu', which is not a model.",
    ),
    "models.order": Message(
        "warn",
        "auto_order has {entry}: {reason} ({source})",
        "auto skips this entry. `counsel models` lists names.",
    ),
    "models.order_empty": Message(
        "problem",
        "auto_order names no model that can be asked ({source}): `auto` cannot answer",
        "Add a model of a provider that is set up, or remove the setting.",
    ),
    "team.none": Message("off", "no team joined; questions use this machine's own keys"),
    "team.joined": Message(
        "info",
        "joined {url}{person}: models of providers with a key are asked there; "
        "not tested (`counsel doctor --online` tests it)",
    ),
    "team.offline": Message(
        "info", "when the server cannot be reached, this machine's own keys are used (team_offline = local)"
    ),
    "team.bad": Message(
        "problem",
        "{problem}",
        "Run `counsel login` again, or `counsel logout`.",
        "team.json cannot be used (it is damaged).",
    ),
    "team.reached": Message(
        "ok", "{host}: reached in {seconds:.1f} s, login accepted, counsel {release}, {models} models"
    ),
    "team.failed": Message(
        "problem",
        "{problem}",
        "{hint}",
        "team.example rejected this login: its token is wrong or no longer valid.",
    ),
    "providers.team": Message("info", "{label}: through the team server"),
    "providers.off": Message("off", "{label}: not set up", "{reason}"),
    "providers.key": Message(
        "info", "{label}: key from {source}{address}; not tested (`counsel doctor --online` tests it)"
    ),
    "providers.form": Message(
        "warn", "{label}: {source} does not look like a key of this provider{address}", "{compare}"
    ),
    "providers.keyless": Message("info", "{label}: no key needed{address}; not tested"),
    "providers.listens": Message("ok", "{label}: a server listens at {url}"),
    "providers.silent": Message(
        "warn", "{label}: no server listens at {url} ({source})", "Start it, or correct the address."
    ),
    "providers.none": Message(
        "warn",
        "no provider has a key",
        "Store one, for example with `counsel keys set openai`; `counsel demo` needs none.",
    ),
    "agents.off": Message("off", "{label}: `{command}` is not on the PATH", "{reason}"),
    "agents.login": Message("warn", "{label}: {program}", "{reason}"),
    "agents.ok": Message("ok", "{label}: {program} ({reason})"),
    "agents.unknown": Message("info", "{label}: {program} ({reason})"),
    "setup.ok": Message("ok", "counsel is registered with {agents}"),
    "setup.off": Message("off", "counsel is not registered with any agent", "`counsel setup` registers it."),
    "setup.gone": Message(
        "problem",
        "{agent} cannot start counsel: {program} does not exist",
        "`counsel setup` updates the entry.",
    ),
    "setup.path": Message(
        "warn",
        "{agent} starts counsel as `{program}`, which is not on this PATH",
        "`counsel setup` updates the entry.",
    ),
    "setup.unreadable": Message(
        "warn",
        "{problem}",
        "Correct it by hand; otherwise the agent may refuse to start.",
        "~/.codex/config.toml: line 1: …",
    ),
    "online.none": Message("off", "no provider is set up"),
    "online.ok": Message("ok", "{label}: reached in {seconds:.1f} s{accepted}"),
    "online.key": Message("problem", "{label}: the key is not accepted", "{hint}"),
    "online.limited": Message(
        "warn", "{label}: reached, but this key is rate-limited at the moment", "Try again later."
    ),
    "online.failed": Message("problem", "{label}: {problem}", "{hint}"),
}


def finding(key: str, **fields: object) -> Finding:
    level, template, todo_template, _ = MESSAGES[key]
    return Finding(key.partition(".")[0], level, template.format(**fields), todo_template.format(**fields))
