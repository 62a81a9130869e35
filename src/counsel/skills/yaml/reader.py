"""As much YAML as frontmatter needs, read without ever running or building anything.

It reads block and flow collections, plain, quoted and block scalars, anchors, tags (kept as text, never acted on) and
comments, and refuses what the clients' parsers refuse. Where those parsers differ, a `Dialect` says so: the point is
not YAML, but to know what each agent would make of a file.
"""

from __future__ import annotations

from functools import lru_cache

from counsel.skills.yaml.nodes import Dialect, Mapping, Node, Scalar, YamlError
from counsel.skills.yaml.quick import quick

__all__ = ["Dialect", "Mapping", "Node", "Scalar", "YamlError", "parse"]


def parse(text: str, dialect: Dialect = Dialect()) -> Node:  # noqa: B008 - frozen
    """The document as nodes, or `YamlError`. Nodes are shared between callers: they are for reading."""
    outcome = _outcome(text.strip("\n"), dialect)
    if isinstance(outcome, YamlError):
        raise YamlError(*outcome.args)  # a fresh one: the kept one must not collect tracebacks
    return outcome


@lru_cache(maxsize=4096)  # the same file is read for several agents
def _outcome(text: str, dialect: Dialect) -> Node | YamlError:
    if found := quick(text):
        return found
    from counsel.skills.yaml.block import document  # noqa: PLC0415 - many lists never need it

    try:
        return document(text, dialect)
    except YamlError as error:
        return error
