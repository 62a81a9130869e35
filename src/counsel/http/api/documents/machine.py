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
    wire_id: Annotated[str, "The vendor's own name for the model."]
    label: str
    aliases: list[str]
    superseded_by: Annotated[str | None, "A newer model of the same family."]
    available: Annotated[bool, "Whether the model can be asked now."]
    reason: Annotated[str, "Why the model cannot be asked, and what to do about it."]
    context: Annotated[int, "Size of the context window, in tokens."]
    output: Annotated[int, "Maximum length of an answer, in tokens."]
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
    model: Annotated[str | None, "null: the alias leads to no known model."]
    problem: NotRequired[str]


class EmbeddedModel(TypedDict):
    """A tiny model on this machine, to try counsel without a key: it is often wrong."""

    state: Annotated[
        State,
        "`ready`: the model can be asked (the first question starts it). `installing`: poll for the progress.",
    ]
    progress: Annotated[float | None, "From 0 to 1; null: not known."]
    size_bytes: Annotated[int, "Size of the download."]
    error: Annotated[ErrorDetail | None, "If `failed`: the reason."]
    model: Annotated[str, "The name to ask the model by."]


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
        Literal["ok", "info", "off", "warn", "problem"],
        "ok: tested and working. info: not tested. off: not set up.",
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
    env: Annotated[str, "The environment variable, which takes precedence over files."]
    description: str
    type: Annotated[Literal["integer", "boolean", "string", "strings"], "The value's type."]
    value: Annotated[object, "null for a secret."]
    default: object
    source: Annotated[str, "Where the value comes from; `default`: it is not set."]
    secret: bool
    set: Annotated[bool, "Whether the value differs from the default."]
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
    variable: Annotated[str, "The environment variable for the key."]
    set: bool
    source: Annotated[
        str | None, "`environment`, `.env`, `keychain` or `config.toml`; null: there is no key."
    ]
    required: bool
    url: Annotated[str, "Where a person gets a key."]


class StoreKey(TypedDict):
    key: str
    check: NotRequired[
        Annotated[bool, "Ask the provider (default), and refuse the key if the provider does."]
    ]
    keychain: NotRequired[
        Annotated[bool, "Store the key in the system's keychain instead of COUNSEL_HOME/.env."]
    ]


class StoredKey(KeyRow):
    stored: Annotated[str, "Where the key was stored."]
    accepted: Annotated[
        bool | None,
        "Whether the provider accepts the key; null: not checked, or the provider could not be reached.",
    ]
    well_formed: Annotated[bool, "Whether the key looks like one of this provider's."]


class RemovedKey(KeyRow):
    """`set` is true if the environment still has a key."""

    removed: Annotated[list[str], "The variables that were removed."]
    notes: Annotated[list[str], "What could not be removed."]


class Panel(TypedDict):
    """Models that are asked together: `@NAME` in a consensus."""

    name: str
    models: Annotated[list[object], "Names, or objects with `model` and a `role` or `stance`."]
    problem: NotRequired[Annotated[str, "Why the panel cannot be used."]]


class TeamServer(TypedDict):
    url: str
    person: Annotated[str, "The person who is logged in; empty: the server belongs to one person."]
    role: str
    problem: Annotated[str | None, "Why the login cannot be used."]


class Settings(TypedDict):
    settings: list[Setting]
    keys: list[ProviderKey]
    panels: Annotated[list[Panel], "The panels in config.toml."]
    problems: Annotated[list[str], "Lines of the settings files that are ignored, with the reason."]
    home: str
    team: Annotated[
        TeamServer | None, "The team's server that this machine has joined (`counsel login`); null: none."
    ]


class ChangeSetting(TypedDict):
    name: Annotated[str, "The setting, or its environment variable."]
    value: NotRequired[
        Annotated[object, "A value of the setting's type; null or missing: the default applies again."]
    ]


class ChangedSetting(TypedDict):
    changed: Annotated[bool, "false: config.toml had this value already."]
    setting: Annotated[Setting, "The setting as it is now; an environment variable still takes precedence."]


class SetAlias(TypedDict):
    model: Annotated[str, "The model's id, or another name of it."]


class ChangedAlias(TypedDict):
    changed: Annotated[bool, "false: config.toml was like this already."]
    aliases: Annotated[list[Alias], "All aliases, as they are now."]


class SetPanel(TypedDict):
    models: Annotated[list[object], "1 to 20 names, or objects with `model` and a `role` or `stance`."]


class ChangedPanel(TypedDict):
    changed: Annotated[bool, "false: config.toml was like this already."]
    panels: Annotated[list[Panel], "All panels, as they are now."]


class StoredFile(TypedDict):
    """A stored file. It is deleted after a day."""

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
        float | None,
        "When the session ends if the page is not used, in seconds since 1970; null: there is no cookie.",
    ]
    version: str
    project: Annotated[str, "The folder in which `counsel console` or `counsel serve` was started."]
    home: Annotated[str, "COUNSEL_HOME."]
    user_home: Annotated[str, "The user's home folder, for `~` in paths."]
    host: Annotated[str, "The host and port that this request was sent to."]
    person: Annotated[
        SignedInPerson | None, "Who has signed in to a team's server; null: the server belongs to one person."
    ]
