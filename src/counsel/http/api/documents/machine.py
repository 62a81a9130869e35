"""Models, agents, usage, settings, checks and images as the API shows them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from counsel.http.api.documents.answers import ErrorDetail
from counsel.models.embedded_process import State


class Price(TypedDict):
    input: float
    output: float


class Model(TypedDict):
    id: str
    provider: str
    wire_id: Annotated[str, "The vendor's own name for it."]
    label: str
    aliases: list[str]
    superseded_by: Annotated[str | None, "A newer model of the same family."]
    available: Annotated[bool, "It can be asked now."]
    reason: Annotated[str, "Why it cannot, and what to do."]
    context: Annotated[int, "Tokens of its window."]
    output: Annotated[int, "Tokens of the longest answer."]
    price_per_million: Annotated[Price | None, "USD."]
    vision: bool
    web_search: bool
    tools: bool
    verbosity: bool
    media_resolution: bool
    temperature: list[float] | None
    efforts: dict[str, str | int]
    listed: bool
    embedded: NotRequired[Annotated[bool, "The tiny model on this machine: it is often wrong."]]


class Alias(TypedDict):
    """A name that the user has defined."""

    name: str
    target: str
    model: Annotated[str | None, "null: it means no model."]
    problem: NotRequired[str]


class EmbeddedModel(TypedDict):
    """A tiny model on this machine, to try counsel without a key: it is often wrong."""

    state: Annotated[
        State,
        "`ready`: it can be asked (the first question starts it). `installing`: ask again for the progress.",
    ]
    progress: Annotated[float | None, "From 0 to 1; null: not known."]
    size_bytes: Annotated[int, "Of the download."]
    error: Annotated[ErrorDetail | None, "Why it `failed`."]
    model: Annotated[str, "Its name in a question."]


class Models(TypedDict):
    models: list[Model]
    aliases: list[Alias]
    problems: Annotated[list[str], "Rows of the user's config.toml that cannot be used."]


class Agent(TypedDict):
    agent: str
    label: str
    installed: bool
    path: str | None
    version: str | None
    logged_in: bool | None
    usable: bool
    reason: str | None
    install: Annotated[str, "How to install it."]
    login: Annotated[str, "How to log in."]
    config_files: list[str]
    servers: int | None
    skills: int | None


class Agents(TypedDict):
    agents: list[Agent]


class Finding(TypedDict):
    area: str
    level: Annotated[
        Literal["ok", "info", "off", "warn", "problem"], "ok: tested. info: not tested. off: not set up."
    ]
    what: str
    todo: NotRequired[Annotated[str, "What to do."]]


class Doctor(TypedDict):
    """What is set up, what is wrong, and how to fix it."""

    level: Annotated[Literal["ok", "warn", "problem"], "The worst level of the findings."]
    counts: dict[str, int]
    findings: list[Finding]


class Setting(TypedDict):
    name: str
    env: Annotated[str, "The environment variable, which wins over files."]
    description: str
    type: Annotated[Literal["integer", "boolean", "string", "strings"], "The type of its value."]
    value: Annotated[object, "null for a secret."]
    default: object
    source: Annotated[str, "Where the value comes from; `default`: it is not set."]
    secret: bool
    set: Annotated[bool, "It is not the default."]
    choices: list[str]
    minimum: float | None
    maximum: float | None
    unit: str


class ProviderKey(TypedDict):
    """A provider's key, by name. Its value is never shown."""

    provider: str
    label: str
    names: Annotated[list[str], "Environment variables that may hold the key."]
    set: bool
    source: Annotated[str | None, "Where the key comes from."]
    required: bool
    url: Annotated[str, "Where a person gets a key."]


class KeyRow(TypedDict):
    """Whether a provider has a key, and where. Its value is never shown."""

    provider: str
    label: str
    variable: Annotated[str, "The environment variable that holds the key, or would."]
    set: bool
    source: Annotated[
        str | None, "`environment`, `.env`, `keychain` or `config.toml`; null: there is no key."
    ]
    required: bool
    url: Annotated[str, "Where a person gets a key."]


class StoreKey(TypedDict):
    key: str
    check: NotRequired[
        Annotated[bool, "Ask the provider (default), and refuse a key that it does not accept."]
    ]
    keychain: NotRequired[Annotated[bool, "Store it in the system's keychain instead of COUNSEL_HOME/.env."]]


class StoredKey(KeyRow):
    stored: Annotated[str, "Where it was stored."]
    accepted: Annotated[bool | None, "null: it was not checked, or the provider could not be reached."]
    well_formed: Annotated[bool, "It looks like a key of this provider."]


class RemovedKey(KeyRow):
    """`set` is true if the environment still has a key."""

    removed: Annotated[list[str], "The variables that were removed."]
    notes: Annotated[list[str], "What could not be removed."]


class Panel(TypedDict):
    """Models that are asked together: `@NAME` in a consensus."""

    name: str
    models: Annotated[list[object], "Names, or objects with `model` and a `role` or `stance`."]
    problem: NotRequired[Annotated[str, "Why it cannot be used."]]


class TeamServer(TypedDict):
    url: str
    person: Annotated[str, "Who the login belongs to; empty: the server has one person."]
    role: str
    problem: Annotated[str | None, "Why the login cannot be used."]


class Settings(TypedDict):
    settings: list[Setting]
    keys: list[ProviderKey]
    panels: Annotated[list[Panel], "Of config.toml's `[panels]`."]
    problems: Annotated[list[str], "Lines of the files that are ignored."]
    home: str
    team: Annotated[TeamServer | None, "The server that `counsel login` joined; null: none."]


class ChangeSetting(TypedDict):
    name: Annotated[str, "The setting, or its environment variable."]
    value: NotRequired[
        Annotated[object, "A value of the setting's type; null or missing: the default applies again."]
    ]


class ChangedSetting(TypedDict):
    changed: Annotated[bool, "false: config.toml had this value already."]
    setting: Annotated[Setting, "As it is now; a variable of the environment still wins."]


class SetAlias(TypedDict):
    model: Annotated[str, "A model's id or another of its names."]


class ChangedAlias(TypedDict):
    changed: Annotated[bool, "false: config.toml was like this already."]
    aliases: Annotated[list[Alias], "All of them, as they are now."]


class SetPanel(TypedDict):
    models: Annotated[list[object], "1 to 20 names, or objects with `model` and a `role` or `stance`."]


class ChangedPanel(TypedDict):
    changed: Annotated[bool, "false: config.toml was like this already."]
    panels: Annotated[list[Panel], "All of them, as they are now."]


class StoredFile(TypedDict):
    """Deleted after a day."""

    path: Annotated[str, "For `files` or `images` of a question."]
    size: Annotated[int, "Bytes."]


class StoredImage(TypedDict):
    path: Annotated[str, "For `images` of a question."]
    media_type: str
    width: int
    height: int
    bytes: int
    sha256: str


class SignIn(TypedDict):
    key: Annotated[str, "The part of the link after `#`, or the token."]


class SignedInPerson(TypedDict):
    id: str
    name: str
    role: Literal["admin", "member", "read-only"]
    groups: list[str]


class ConsoleSession(TypedDict):
    expires_at: Annotated[
        float | None, "Seconds since 1970, if the page is not used; null: no cookie was used."
    ]
    version: str
    project: Annotated[str, "The folder in which `counsel console` or `counsel serve` was started."]
    home: Annotated[str, "COUNSEL_HOME."]
    user_home: Annotated[str, "The home folder: `~` in a path."]
    host: Annotated[str, "The host and port that this request was sent to."]
    person: Annotated[
        SignedInPerson | None, "Who has signed in to a team's server; null: the server belongs to one person."
    ]
