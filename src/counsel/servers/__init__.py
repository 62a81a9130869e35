"""MCP servers of all agents, from one place.

formats.py    the agents' formats by name (agents/<agent>/servers.py)
listing.py    what is configured: shadowed, drifted, disabled
selection.py  which tables and servers a command means
adapt.py      a server as one agent can have it
codex_layers.py how Codex and OpenCode merge their files
changes.py    add, update, rename, remove, switch: as steps of a plan
plan.py       the steps as planned writes, refusals first
fields.py     a server from named fields
paste.py      JSON or TOML in any agent's format
secrets.py    what looks like a secret; masking
diff.py       the exact diff of a planned write
starting.py   where a server is started, and with which variables
connecting.py a connection as the agent itself would make it
check.py      connect to servers and list their tools
service.py    `Servers`: the operations, for the command line, HTTP and Python
"""

from counsel.agents.server_format import Server
from counsel.servers.service import Servers

__all__ = ["Server", "Servers"]
