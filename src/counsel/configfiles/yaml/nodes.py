"""The nodes of a YAML header, and the differences between the clients' YAML readers."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, TypeAlias

from counsel.lazy_dataclass import dataclass


class YamlError(ValueError):
    """The text is not valid YAML; the message says where."""


class Dialect(NamedTuple):
    breaks: str = "\n"  # characters that end a line, besides CR and LF
    tabs: bool = False  # a tab may indent
    blank_tabs: bool = True  # a blank line may begin with a tab
    controls: bool = False  # control characters except NUL are allowed
    comma_starts: bool = False  # a key or value may start with a comma
    empty_keys: bool = False  # `: value` has an empty key
    loose_quotes: bool = False  # a quoted string may continue without indentation
    tight_comments: bool = False  # `"text"#comment` needs no space
    duplicate_keys: bool = True  # duplicate keys are allowed
    unknown_tags: bool = True  # unknown tags are ignored


class Scalar(NamedTuple):
    text: str
    plain: bool = True

    @property
    def null(self) -> bool:
        return self.plain and self.text in {"", "~", "null", "Null", "NULL"}


@dataclass(slots=True)
class Mapping:
    items: dict[str, Node] = field(default_factory=dict)
    duplicates: set[str] = field(default_factory=set)
    odd_keys: bool = False  # some key is a list or a mapping


Node: TypeAlias = Scalar | Mapping | list["Node"]

NULL = Scalar("")
DEEPEST = 64


def node_text(node: Node | None) -> str:
    """A node as one line; lists and mappings are joined with commas."""
    if isinstance(node, Scalar):
        return "" if node.null else node.text.strip()
    if isinstance(node, list):
        return ", ".join(filter(None, map(node_text, node)))
    if isinstance(node, Mapping):
        return ", ".join(f"{key}: {node_text(value)}" for key, value in node.items.items())
    return ""
