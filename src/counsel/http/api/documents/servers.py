"""MCP servers and skills as the API shows them, and the bodies of requests about them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from counsel.agents.skill_format import Scope, State
from counsel.http.api.documents.answers import ErrorDetail
from counsel.skills.matrix import Cell
from counsel.skills.share import Fate, Kind


class Server(TypedDict):
    """An entry of one agent's configuration; secrets are masked."""

    name: str
    agent: str
    scope: str
    path: Annotated[str, "The file."]
    transport: str
    enabled: bool
    waits_for: Annotated[
        Literal["trust", "approval"] | None,
        "The question that you have to answer in the agent before it loads the server in this folder.",
    ]
    command: str | None
    args: list[str]
    env: dict[str, object]
    cwd: str | None
    url: str | None
    headers: dict[str, object]
    token_env: str | None
    timeout: float | None
    include_tools: list[str] | None
    exclude_tools: list[str] | None
    extras: Annotated[dict[str, object], "Fields that only this agent supports."]
    shadowed_by: str | None
    drift: Annotated[list[str], "Fields that differ between the agents' servers of this name."]
    writable: bool


class ServerProblem(ErrorDetail):
    """A file or an entry that cannot be read."""

    agent: str
    scope: str
    path: str
    name: NotRequired[str]
    editable: NotRequired[bool]
    file: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]


class ServerScope(TypedDict):
    scope: str
    path: Annotated[str, "The file that a new server is written to."]
    present: Annotated[bool, "Whether the agent is installed or was used here."]


class ServerAgent(TypedDict):
    """Where an agent can have servers, and which fields it does not support."""

    name: str
    label: str
    scopes: list[ServerScope]
    transports: list[str]
    lacks: Annotated[dict[str, str], "Fields that the agent does not support, and what happens instead."]
    no_switch: Annotated[str | None, "Why its servers cannot be enabled or disabled; null: they can."]
    names: Annotated[str, "Which server names the agent accepts."]


class Servers(TypedDict):
    servers: list[Server]
    problems: list[ServerProblem]
    agents: list[ServerAgent]


class FoundServers(TypedDict):
    servers: list[Server]


class ServerResult(TypedDict):
    """The outcome for one table of one file."""

    agent: str
    scope: str
    path: str
    name: str
    action: str
    warnings: list[str]
    error: NotRequired[ErrorDetail]


class Diff(TypedDict):
    path: str
    diff: Annotated[str, "Unified; secrets are masked."]


class ServerChange(TypedDict):
    dry_run: bool
    id: Annotated[str | None, "The id for `undo`; null: nothing was written."]
    results: list[ServerResult]
    diffs: NotRequired[Annotated[list[Diff], "Only in a dry run."]]
    left_out: NotRequired[list[object]]


class Operation(TypedDict):
    id: str
    at: object
    what: str
    files: list[str]
    undoes: str | None


class ServerUndo(ServerChange):
    undone: Operation


class ServerHistory(TypedDict):
    operations: list[Operation]


class ServerCheck(TypedDict):
    name: str
    agent: str
    scope: str
    path: str
    transport: str
    status: Annotated[str, "`ok`, `failed`, `timeout`, `disabled` or `skipped`."]
    latency_ms: int | None
    protocol_version: str | None
    server_info: dict[str, str] | None
    tools: list[str]
    tool_descriptions: Annotated[
        dict[str, str], "Each tool's description, by its name; missing if the server sends none."
    ]
    error: str | None
    stderr: list[str]
    unset: Annotated[list[str], "Variables that the entry refers to but that are not set."]


class ServerChecks(TypedDict):
    checks: list[ServerCheck]


class ServerSelection(TypedDict, total=False):
    """Which entries a request is about."""

    agents: Annotated[list[str], "Default: all that have servers."]
    scope: str
    project: Annotated[str, "The project's folder. Default: where the server was started."]
    dry_run: Annotated[bool, "Write nothing; show the differences."]


class AddServer(ServerSelection, total=False):
    name: str
    server: Annotated[dict[str, object], "Fields of the server."]
    paste: Annotated[str, "JSON or TOML in any agent's format, instead of `server`."]
    replace: Annotated[bool, "Replace an existing server of this name."]
    literal: Annotated[bool, "Store `$NAME` as text, not as a reference."]


class UpdateServer(ServerSelection, total=False):
    server: Annotated[dict[str, object], "Fields to change; null removes one."]
    literal: bool


class RenameServer(ServerSelection, total=False):
    to: Annotated[str, "The new name."]


CopyServer = TypedDict(
    "CopyServer",
    {
        "agents": NotRequired[list[str]],
        "scope": NotRequired[str],
        "project": NotRequired[str],
        "dry_run": NotRequired[bool],
        "from": Annotated[dict[str, object], "`agent` and, optionally, `scope`."],
        "to": Annotated[list[dict[str, object]], "Each with `agent` and, optionally, `scope`."],
        "replace": NotRequired[bool],
    },
)


ChangeServer = TypedDict(
    "ChangeServer",
    {
        "name": Annotated[str, "The server's name."],
        "action": Literal["update", "remove", "rename", "copy", "enable", "disable"],
        "agents": NotRequired[list[str]],
        "scope": NotRequired[str],
        "project": NotRequired[str],
        "dry_run": NotRequired[bool],
        "server": NotRequired[Annotated[dict[str, object], "update: fields to change; null removes one."]],
        "literal": NotRequired[Annotated[bool, "update: store `$NAME` as text, not as a reference."]],
        "from": NotRequired[Annotated[dict[str, object], "copy: `agent` and, optionally, `scope`."]],
        "to": NotRequired[
            Annotated[
                str | list[dict[str, object]], "rename: the new name; copy: `agent` and `scope` of each."
            ]
        ],
        "replace": NotRequired[Annotated[bool, "copy: replace an existing server of this name."]],
    },
)


class CheckServers(ServerSelection, total=False):
    name: Annotated[str, "Only this server."]
    timeout: Annotated[float, "Seconds per server, up to 600."]
    trust_folder: Annotated[
        bool,
        "Trust the project's folder for this request: its own servers may start, and the others start there.",
    ]


class RevealSecret(TypedDict):
    """Names one value of one server."""

    name: str
    agent: str
    scope: NotRequired[str]
    project: NotRequired[Annotated[str, "The project's folder. Default: where the server was started."]]
    field: Annotated[str, "`env.NAME`, `headers.NAME`, `url`, `args.0` or `extras.…`."]


class RevealedSecret(TypedDict):
    value: Annotated[str, "The value as the agent's file contains it."]


class UndoServers(ServerSelection, total=False):
    id: Annotated[str, "The operation's id. Default: the newest."]


# ── skills ───────────────────────────────────────────────────────────────────────────────────────────


class Skill(TypedDict):
    """A skill as one agent sees it."""

    agent: str
    scope: Scope
    name: str
    description: str
    path: str
    command: Annotated[str | None, "What a person types to use it."]
    accepted: Annotated[bool, "Whether the agent loads the skill."]
    problems: list[str]
    state: State
    codes: list[str]
    model: Annotated[bool, "Whether the agent may choose the skill on its own."]
    shared: bool
    plugin: str | None
    version: str | None
    shadowed_by: str | None
    links_to: str | None


class Skills(TypedDict):
    skills: list[Skill]
    problems: list[str]


class SkillRow(TypedDict):
    name: str
    agents: dict[str, Cell]
    copies: int
    identical: bool


class SkillMatrix(TypedDict):
    rows: list[SkillRow]
    problems: list[str]


class SkillFile(TypedDict):
    path: str
    bytes: int


class SkillFinding(TypedDict):
    rule: str
    ok: bool
    words: str
    mend: str | None


class SkillDetail(Skill):
    text: Annotated[str, "Markdown, without the frontmatter."]
    fields: dict[str, object]
    allowed_tools: list[str]
    files: list[SkillFile]
    check: list[SkillFinding]
    elsewhere: list[Skill]


class SharingStep(TypedDict):
    agents: list[str]
    path: str
    fate: Fate
    kind: Kind
    source: str
    words: str
    backup: str | None


class Sharing(TypedDict):
    skill: str
    scope: str
    id: Annotated[str | None, "The id for `undo`; null: nothing was changed."]
    steps: list[SharingStep]
    warnings: list[str]


class SharedSkill(TypedDict):
    """A link or a copy that sharing created."""

    id: Annotated[str, "The operation's id, for `undo`."]
    skill: str
    agents: list[str]
    scope: str
    kind: Kind
    path: str
    source: str


class SharedSkills(TypedDict):
    shared: list[SharedSkill]


class ShareSkill(TypedDict):
    name: str
    to: NotRequired[Annotated[list[str], "Agents. Default: all."]]
    scope: NotRequired[str]
    copy: NotRequired[Annotated[bool, "Copy instead of linking."]]
    replace: NotRequired[bool]
    dry_run: NotRequired[bool]
    project: NotRequired[str]


class UnshareSkill(TypedDict):
    name: str
    to: NotRequired[list[str]]
    scope: NotRequired[str]
    dry_run: NotRequired[bool]
    project: NotRequired[str]


class UndoSharing(TypedDict, total=False):
    id: Annotated[str, "The operation's id. Default: the newest."]
    dry_run: bool
