"""The rules for each argument of a request. The tools' schemas are made of them, and the engine checks the same rules.

So MCP, HTTP, the socket, the command line and Python refuse the same values with the same message.
"""

from __future__ import annotations

import re
from typing import get_args

from counsel.argument_schema import Schema
from counsel.errors import InvalidArgument
from counsel.requests import MAX_MODELS, Order, Refine, Stance
from counsel.types import EFFORTS, MediaResolution, Verbosity

LONGEST_MODEL = (
    256  # characters of a model's name, which results and errors repeat; the longest known have 80
)

STRING: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
STRINGS: Schema = {"type": "array", "items": STRING}
SWITCH: Schema = {"type": "boolean"}

MEMBER: Schema = {
    "anyOf": [
        NAME,
        {
            "type": "object",
            "properties": {
                "model": NAME,
                "role": STRING,
                "stance": {"type": "string", "enum": list(get_args(Stance))},
            },
            "required": ["model"],
            "additionalProperties": False,
        },
    ]
}

RULES: dict[str, Schema] = {
    "prompt": NAME,
    "model": STRING,
    "models": {"type": "array", "items": MEMBER, "minItems": 1, "maxItems": MAX_MODELS},
    "files": STRINGS,
    "images": STRINGS,
    "tools": STRINGS,
    "continuation_id": STRING,
    "session_tag": STRING,
    "temperature": {"type": "number", "minimum": 0, "maximum": 1},
    "reasoning_effort": {"type": "string", "enum": list(EFFORTS)},
    "verbosity": {"type": "string", "enum": list(get_args(Verbosity))},
    "media_resolution": {"type": "string", "enum": list(get_args(MediaResolution))},
    "use_websearch": SWITCH,
    "max_cost_usd": {"type": "number", "minimum": 0},
    "judge": STRING,
    "choices": {"type": "array", "items": NAME, "minItems": 2, "maxItems": 20},
    "refine": {"type": "string", "enum": list(get_args(Refine))},
    "rounds": {"type": "integer", "minimum": 1, "maximum": 3},
    "order": {"type": "string", "enum": list(get_args(Order))},
    "enable_cross_feedback": SWITCH,
    "cross_feedback_prompt": STRING,
    "diff": NAME,
    "about": STRING,
    "root": STRING,
    "left_out": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"file": STRING, "reason": STRING},
            "required": ["file", "reason"],
            "additionalProperties": False,
        },
    },
    # No interface offers these as arguments, but any program can send them to the daemon's socket.
    "tool": {"type": "string", "enum": ["chat", "askModel"]},
    "session": STRING,
    "check_models": SWITCH,
    "system": STRING,
    "schema": {"type": "object"},
    # Only Python and the command line accept a folder; tools offer just the switch.
    "export": {"anyOf": [SWITCH, STRING]},
}

_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def is_name(text: str) -> bool:
    return bool(_SAFE_NAME.fullmatch(text) and text.strip("."))


def check_name(name: str, kind: str, otherwise: str = "") -> str:
    """Check a caller's name for a conversation, a tag or a session: it becomes part of file names and tags."""
    if is_name(name):
        return name
    raise InvalidArgument(
        f"{name[:80]!r} cannot name {kind}.",
        hint=f"Use 1 to 64 letters, digits, '_', '-' or '.'{otherwise}.",
    )
