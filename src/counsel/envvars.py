"""Environment variables that an MCP client passed on unexpanded. Standard library only: the stdio front imports this."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def is_unexpanded(name: str, value: str) -> bool:
    """A client that does not know a variable may pass on the reference from its config file: `${env:NAME}` is not a key."""
    return value.startswith("$") and value in (
        f"${{env:{name}}}",
        f"${{{name}}}",
        f"${{{name}:-}}",
        f"${name}",
    )


def expanded(env: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that were passed on unexpanded: they count as not set."""
    return {name: value for name, value in env.items() if not is_unexpanded(name, value)}
