"""Environment variables that an MCP client passes on unexpanded. Standard library only, for the stdio front."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def is_unexpanded(name: str, value: str) -> bool:
    """Whether the value is only a reference: a client may pass on `${env:NAME}` of a variable that it does not have."""
    return value.startswith("$") and value in (
        f"${{env:{name}}}",
        f"${{{name}}}",
        f"${{{name}:-}}",
        f"${name}",
    )


def expanded(env: Mapping[str, str]) -> dict[str, str]:
    """The variables without unexpanded ones, which count as not set."""
    return {name: value for name, value in env.items() if not is_unexpanded(name, value)}
