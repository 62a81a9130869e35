"""MCP's protocol without I/O: revisions, envelopes, and the answers that need no engine.

The stdio front and the daemon's dispatcher both use this module, so they cannot disagree. Since every agent starts a
front, only the standard library is imported here, and as little of it as possible.

A client's first request decides the connection's era: `initialize` (2024-11-05 to 2025-11-25), or stateless
(2026-07-28), where each request carries its revision and capabilities in `_meta`.
"""

from __future__ import annotations

from counsel import __version__
from counsel.front import prompts
from counsel.front.json_messages import LONGEST_ID, MOST_IN_BATCH, Unreadable, quoted

TYPE_CHECKING = False  # typing costs milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from counsel.types import Json

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
BATCHES_UNTIL = "2025-03-26"
STRUCTURED_SINCE = "2025-06-18"  # `resource_link`
MOST_AT_ONCE = 1_000  # requests of one client at the same time

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002  # until 2025-11-25; INVALID_PARAMS since
BUSY = -32000  # too many at once: the same request succeeds later
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

_META = "io.modelcontextprotocol/"
META_VERSION = _META + "protocolVersion"
META_CLIENT = _META + "clientInfo"
META_CAPABILITIES = _META + "clientCapabilities"
META_SERVER = _META + "serverInfo"
META_SUBSCRIPTION = _META + "subscriptionId"

SERVER = {"name": "counsel", "title": "counsel", "version": __version__}
CAPABILITIES = {
    "tools": {"listChanged": False},
    "resources": {"listChanged": False},
    "prompts": {"listChanged": False},
}
TASKS = "io.modelcontextprotocol/tasks"  # an extension of 2026-07-28 (mcp/tasks.py)
INSTRUCTIONS = (
    "Consult other AI models and coding agents: chat asks one, consensus several, askModel a colleague by name. "
    "Long work: async true, then check_status. An answer's continuation_id continues its conversation."
)
# Methods of 2026-07-28 whose results a client may cache: for how many milliseconds, and whether for all users.
_CACHE = {
    "server/discover": (3_600_000, "public"),
    "tools/list": (3_600_000, "public"),
    "prompts/list": (3_600_000, "public"),
    "resources/templates/list": (3_600_000, "public"),
    "resources/list": (0, "private"),
    "resources/read": (0, "private"),
}
_ONLY_HANDSHAKE = frozenset({"initialize", "ping", "logging/setLevel"})
_ONLY_STATELESS = frozenset({"server/discover"})
_LEVELS = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})
TASK_METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
LISTEN = "subscriptions/listen"  # used for tasks only: our lists do not change
ENGINE_METHODS = frozenset({"tools/call", "resources/list", "resources/read"})


class RpcError(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def response(self, request_id: object) -> Json:
        error: Json = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": request_id, "error": error}


def unreadable(error: Unreadable) -> RpcError:
    return RpcError(PARSE_ERROR, f"Parse error: {error}")


def busy() -> RpcError:
    return RpcError(BUSY, f"{MOST_AT_ONCE:,} requests are in progress: wait for an answer, then ask again")


def is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_ID
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64


def check_message(message: object) -> None:
    """Refuse anything but a JSON-RPC request, notification or response."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'Not a JSON-RPC message: expected an object with "jsonrpc": "2.0"')
    if "id" in message and not is_id(message["id"]):
        raise RpcError(
            INVALID_REQUEST,
            f"A request's id must be a string of at most {LONGEST_ID:,} characters or a 64-bit integer",
        )
    if "method" in message:
        if not isinstance(message["method"], str):
            raise RpcError(INVALID_REQUEST, "method must be a string")
        if not isinstance(message.get("params", {}), dict):
            raise RpcError(INVALID_PARAMS, "params must be an object")
    elif not ("id" in message and ("result" in message or "error" in message)):
        raise RpcError(INVALID_REQUEST, "A message needs a method, or an id with a result or an error")


def check_batch(messages: Sequence[object], version: str) -> None:
    if not messages or version > BATCHES_UNTIL:
        raise RpcError(INVALID_REQUEST, f"Batches exist only in protocol revision {BATCHES_UNTIL}")
    if len(messages) > MOST_IN_BATCH:
        raise RpcError(INVALID_REQUEST, f"A batch may hold at most {MOST_IN_BATCH} messages")


def batch_ids(messages: Sequence[object]) -> list[object]:
    """The ids of a batch's requests, by which the front and the daemon refer to it."""
    return [reply_id(message) for message in messages]


def reply_id(message: object) -> object:
    """The id for an error about this message; None when it has no valid one."""
    request_id = message.get("id") if isinstance(message, dict) else None
    return request_id if is_id(request_id) else None


def is_request(message: Mapping[str, object]) -> bool:
    return "method" in message and "id" in message


class ProtocolState:
    """What client and server have agreed on: one per client, or over stateless HTTP one per request."""

    __slots__ = ("capabilities", "client", "era", "tools", "version")

    def __init__(self, tools: list[dict[str, object]]) -> None:
        self.tools = tools
        self.era = ""  # "", "handshake" or "stateless"
        self.version = HANDSHAKE[-1]
        self.client = "unknown"
        self.capabilities: dict[str, object] = {}

    def open(self, request: Json) -> None:
        """Determine the era by the first request, and refuse later requests of the other era."""
        method, meta = request["method"], _meta(request)
        if not self.era:
            stateless = method != "initialize" and META_VERSION in meta
            self.era = "stateless" if stateless else "handshake"
        if self.era == "stateless":
            self._open_stateless(request, method, meta)
        elif method != "initialize" and META_VERSION in meta:
            raise RpcError(
                INVALID_REQUEST,
                "This connection was opened with initialize: it does not accept requests with a 2026-07-28 envelope",
            )

    def _open_stateless(self, request: Json, method: str, meta: Mapping[str, object]) -> None:
        if method == "initialize":
            version = (request.get("params") or {}).get("protocolVersion")
            data = (
                {"supported": list(STATELESS), "requested": quoted(version)}
                if isinstance(version, str)
                else {"supported": list(STATELESS)}
            )
            raise RpcError(
                UNSUPPORTED_VERSION, "This connection speaks 2026-07-28, which has no initialize", data
            )
        missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in meta]
        if missing:
            raise RpcError(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
        self.version = check_version(meta[META_VERSION])
        self._set_client(meta.get(META_CLIENT), meta[META_CAPABILITIES])

    def initialize(self, params: dict[str, object]) -> Json:
        version = params.get("protocolVersion")
        if not isinstance(version, str) or not isinstance(params.get("clientInfo"), dict):
            raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo")
        self.era = "handshake"
        self.version = version if version in HANDSHAKE else HANDSHAKE[-1]
        self._set_client(params["clientInfo"], params.get("capabilities"))
        return {
            "protocolVersion": self.version,
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER,
            "instructions": INSTRUCTIONS,
        }

    def _set_client(self, info: object, capabilities: object) -> None:
        name = info.get("name") if isinstance(info, dict) else None
        if isinstance(name, str) and name:
            self.client = name[:200]
        has_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
        self.capabilities = {"roots": {}} if has_roots else {}  # only what is used: the rest may be megabytes

    def static(self, request: Json) -> dict[str, object] | None:
        """The response to a request that needs no engine; None for one that does. Call `open` first."""
        method = request["method"]
        if self.era == "stateless" and _is_about_tasks(request):
            if not declares_tasks(request):
                requirement: dict[str, object] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
                raise RpcError(MISSING_CAPABILITY, "Missing required client capability", requirement)
            return None
        if method in ENGINE_METHODS:
            return None
        answer = _STATIC.get(method)
        other_era = _ONLY_HANDSHAKE if self.era == "stateless" else _ONLY_STATELESS
        if answer is None or method in other_era:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", quoted(method))
        return self.response(request, answer(self, request.get("params") or {}))

    def response(self, request: Json, result: Json) -> Json:
        return {"jsonrpc": "2.0", "id": request["id"], "result": self.stamped(request["method"], result)}

    def stamped(self, method: str, result: Json) -> dict[str, object]:
        """The result with what 2026-07-28 adds: that it is complete, the server, and how long it may be cached."""
        if self.era != "stateless":
            return result
        meta = {**result.get("_meta", {}), META_SERVER: SERVER}
        document: dict[str, object] = {"resultType": "complete", **result, "_meta": meta}
        if method in _CACHE:
            document["ttlMs"], document["cacheScope"] = _CACHE[method]
        return document

    def missing_resource(self, uri: object) -> RpcError:
        code = INVALID_PARAMS if self.era == "stateless" else RESOURCE_NOT_FOUND
        return RpcError(code, "Resource not found", {"uri": quoted(uri)})


def check_version(version: object) -> str:
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"{META_VERSION} must be a string")
    if version not in STATELESS:
        data = {"supported": list(STATELESS), "requested": quoted(version)}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return version


def _meta(request: Json) -> dict[str, object]:
    meta = (request.get("params") or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


def _is_about_tasks(request: Json) -> bool:
    if request["method"] != LISTEN:
        return request["method"] in TASK_METHODS
    notifications = (request.get("params") or {}).get("notifications")
    return isinstance(notifications, dict) and bool(notifications.get("taskIds"))


def declares_tasks(request: dict[str, object]) -> bool:
    """Whether the request's client supports tasks. Each request declares it."""
    capabilities = _meta(request).get(META_CAPABILITIES)
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)


def progress_token(request: dict[str, object]) -> object:
    token = _meta(request).get("progressToken")
    return token if is_id(token) else None


# ── answers that need no engine ──────────────────────────────────────────────────────────────────────


def _discover(_state: ProtocolState, _params: Mapping[str, object]) -> dict[str, object]:
    capabilities = {**CAPABILITIES, "extensions": {TASKS: {}}}
    return {"supportedVersions": list(STATELESS), "capabilities": capabilities, "instructions": INSTRUCTIONS}


def _initialize(state: ProtocolState, params: dict[str, object]) -> dict[str, object]:
    return state.initialize(params)


def _empty(_state: ProtocolState, _params: Mapping[str, object]) -> dict[str, object]:
    return {}


def _set_level(_state: ProtocolState, params: Mapping[str, object]) -> dict[str, object]:
    if params.get("level") not in _LEVELS:
        raise RpcError(INVALID_PARAMS, f"level must be one of {', '.join(sorted(_LEVELS))}")
    return {}


def _check_cursor(params: Mapping[str, object]) -> None:
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "Unknown cursor: lists have a single page")


def _tools(state: ProtocolState, params: Json) -> dict[str, object]:
    _check_cursor(params)
    return {"tools": state.tools}


def _prompts(state: ProtocolState, params: Mapping[str, object]) -> dict[str, object]:
    _check_cursor(params)
    return {"prompts": prompts.listed(state.version)}


def _prompt(_state: ProtocolState, params: Json) -> dict[str, object]:
    name, arguments = params.get("name"), params.get("arguments")
    if fault := prompts.problem(name, arguments):
        raise RpcError(INVALID_PARAMS, f"{fault}: {quoted(name)}" if fault == "Unknown prompt" else fault)
    return prompts.get(str(name), arguments or {})


def _templates(_state: ProtocolState, params: Mapping[str, object]) -> dict[str, object]:
    _check_cursor(params)
    template = {
        "uriTemplate": "counsel://jobs/{id}/text{?page}",
        "name": "A job's text",
        "description": "The whole text of a job's result, page by page.",
        "mimeType": "text/plain",
    }
    return {"resourceTemplates": [template]}


_STATIC: dict[str, Callable[[ProtocolState, Json], Json]] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "ping": _empty,
    "logging/setLevel": _set_level,
    "tools/list": _tools,
    "prompts/list": _prompts,
    "prompts/get": _prompt,
    "resources/templates/list": _templates,
}
