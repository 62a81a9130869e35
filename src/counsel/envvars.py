"""Environment variables as an MCP client passed them on. Standard library only: the stdio front imports this."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def is_unexpanded(name: str, value: str) -> bool:
    """A client that does not know a variable may pass on the reference of its config file: `${env:NAME}` is no key."""
    return value.startswith("$") and value in (
        f"${{env:{name}}}",
        f"${{{name}}}",
        f"${{{name}:-}}",
        f"${name}",
    )


def expanded(env: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that were passed on unexpanded: they are not set."""
    return {name: value for name, value in env.items() if not is_unexpanded(name, value)}
