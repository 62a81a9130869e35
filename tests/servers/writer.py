"""One of many writers: adds and removes servers through the Python API until it finishes or is killed.

python writer.py NAME COUNT AGENT[,AGENT…]
"""

from __future__ import annotations

import sys

from counsel.agents.server_format import Server
from counsel.servers import Servers

if __name__ == "__main__":
    name, count, agents = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
    servers = Servers.here()
    for number in range(count):
        servers.add([Server(f"{name}-{number}", command="echo", args=("x" * 200,))], agents)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
