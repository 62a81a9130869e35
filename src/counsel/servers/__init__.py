"""MCP servers of all agents, from one place.

formats.py   the table of the agents' formats (agents/<agent>/servers.py)
secrets.py   what looks like a secret; masking
listing.py   what is there: shadowed, drifted, disabled
fitting.py   a server as one agent can have it
layers.py    how Codex merges its files
planning.py  what would change, refusals and warnings first, as planned writes
pasted.py    JSON or TOML of any agent's form
diff.py      the exact diff of a planned write
connecting.py a connection as the agent itself would make it
check.py     connect to a server and ask for its tools
service.py   `Servers`: the operations, for the command line, HTTP and Python
"""

from counsel.agents.server_format import Server
from counsel.servers.service import Servers

__all__ = ["Server", "Servers"]
