"""As much YAML as frontmatter needs, for reading only: nothing is built or run.

It reads block and flow collections, plain, quoted and block scalars, anchors, tags (kept as text, never acted on) and
comments, and refuses what the clients' parsers refuse. Where those parsers differ, a `Dialect` has a switch: the goal is
not to read all YAML, but to know how each agent reads a file.
"""

from __future__ import annotations

import re
from functools import lru_cache

from counsel.configfiles.yaml.nodes import Dialect, Mapping, Node, Scalar, YamlError


def parse(text: str, dialect: Dialect = Dialect()) -> Node:  # noqa: B008 - frozen
    """The document as nodes, or `YamlError`. Nodes are shared between callers: do not change them."""
    outcome = _outcome(text.strip("\n"), dialect)
    if isinstance(outcome, YamlError):
        raise YamlError(*outcome.args)  # a new one: the cached one must not collect tracebacks
    return outcome


@lru_cache(maxsize=4096)  # the same file is read for several agents
def _outcome(text: str, dialect: Dialect) -> Node | YamlError:
    if outcome := quick(text):
        return outcome
    from counsel.configfiles.yaml.block import document  # many lists never need it

    try:
        return document(text, dialect)
    except YamlError as error:
        return error


# ── the quick path ───────────────────────────────────────────────────────────────────────────────────
# Most headers are lines of `key: words`, one level of `  key: words` below a key, and simple quotes. They are read here,
# ten times faster than by the whole reader, and only when no dialect could read them differently.

# Values start with a letter or digit; possible line breaks and control characters of any dialect are excluded.
_WORDS = r"\x00-\x1f\x7f-\xa0\u2028\u2029\ufffe\uffff"
_LINE = re.compile(
    r"( *)([A-Za-z_][A-Za-z0-9_-]*):"
    rf"(?: +(?:([A-Za-z0-9][^{_WORDS}]*)|\"([^\"\\{_WORDS}]*)\"|'([^'{_WORDS}]*)'))?"
)


def quick(text: str) -> Mapping | YamlError | None:
    """The header's mapping, or the error that it is not YAML; None if the full reader is needed."""
    top: dict[str, Node] = {}
    inner: dict[str, Node] | None = None
    depth = 0  # of the inner lines
    opened = ""  # the key above, when nothing follows it
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(line)
        if not match:
            return None
        indent, key, plain, double, single = match.groups()
        if plain is not None and (": " in plain or plain[-1] in ": " or " #" in plain):
            uncertain = plain[-1] == " " or " #" in plain or (indent and not opened and inner is None)
            return (
                None
                if uncertain
                else YamlError(f"mapping values are not allowed in this context at line {number}")
            )
        if indent and opened:
            inner, depth = {}, len(indent)
            top[opened] = Mapping(inner)
        elif indent and (inner is None or len(indent) != depth):
            return None
        into = inner if indent and inner is not None else top
        if not indent:
            inner = None
        if key in into:
            return None
        quoted = double if double is not None else single
        into[key] = Scalar(plain or "") if quoted is None else Scalar(quoted, plain=False)
        opened = key if not indent and plain is None and quoted is None else ""
        if indent and plain is None and quoted is None:
            return None  # a third level
    return Mapping(top)
