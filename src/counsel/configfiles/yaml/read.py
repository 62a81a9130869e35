"""As much YAML as frontmatter needs, read-only: no tag creates an object or runs code.

It reads block and flow collections, plain, quoted and block scalars, anchors, tags (ignored) and comments, and refuses
what the clients' parsers refuse. Where those parsers differ, a `Dialect` has a switch: the goal is not to read all
YAML, but to know how each agent reads a file.
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
    from counsel.configfiles.yaml.block import document  # often not needed

    try:
        return document(text, dialect)
    except YamlError as error:
        return error


# ── the quick path ───────────────────────────────────────────────────────────────────────────────────
# Most headers have only lines `key: words`, one level of `  key: words` below a key, and simple quotes. These are read
# here, ten times faster than by the full reader, and only if no dialect could read them differently.

# Values start with a letter or digit and contain no line break or control character of any dialect.
_WORDS = r"\x00-\x1f\x7f-\xa0\u2028\u2029\ufffe\uffff"
_LINE = re.compile(
    r"( *)([A-Za-z_][A-Za-z0-9_-]*):"
    rf"(?: +(?:([A-Za-z0-9][^{_WORDS}]*)|\"([^\"\\{_WORDS}]*)\"|'([^'{_WORDS}]*)'))?"
)


def quick(text: str) -> Mapping | YamlError | None:
    """The header's mapping, or the error if it is not YAML; None if the full reader is needed."""
    top: dict[str, Node] = {}
    inner: dict[str, Node] | None = None
    depth = 0  # of the inner lines
    open_key = ""  # the key above, if it has no value on its line
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(line)
        if not match:
            return None
        indent, key, plain, double, single = match.groups()
        if plain is not None and (": " in plain or plain[-1] in ": " or " #" in plain):
            uncertain = plain[-1] == " " or " #" in plain or (indent and not open_key and inner is None)
            return (
                None
                if uncertain
                else YamlError(f"mapping values are not allowed in this context at line {number}")
            )
        if indent and open_key:
            inner, depth = {}, len(indent)
            top[open_key] = Mapping(inner)
        elif indent and (inner is None or len(indent) != depth):
            return None
        members = inner if indent and inner is not None else top
        if not indent:
            inner = None
        if key in members:
            return None
        quoted_text = double if double is not None else single
        members[key] = Scalar(plain or "") if quoted_text is None else Scalar(quoted_text, plain=False)
        open_key = key if not indent and plain is None and quoted_text is None else ""
        if indent and plain is None and quoted_text is None:
            return None  # a third level
    return Mapping(top)
