"""MCP servers of all agents, from one place.

formats.py        the agents' formats by name (agents/<agent>/servers.py)
listing.py        the configured servers, with what is shadowed, differs or is disabled
selection.py      which tables and servers a command means
adapt.py          a server adapted to one agent
codex_layers.py   how Codex and OpenCode merge their files
changes.py        add, update, rename, remove, switch: as steps of a plan
original_text.py  values that an update leaves as they are written in the file
plan.py           the steps as planned writes, refusals first
fields.py         a server from named fields
paste.py          JSON or TOML in any agent's format
secrets.py        what looks like a secret; masking
diff.py           the exact diff of a planned write
targets.py        where each agent can have servers
starting.py       where a server is started, and with which variables
connecting.py     a connection as the agent itself would make it
message_limits.py limits on the size of a server's messages
check.py          connect to servers and list their tools
service.py        `Servers`: the operations, for the command line, HTTP and Python
"""

from counsel.agents.server_format import Server
from counsel.servers.service import Servers

__all__ = ["Server", "Servers"]
