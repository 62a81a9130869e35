"""All benchmarks: `make bench`, or `python -m bench NAME…`. Peers are installed from npm into .cache/bench.

Each script also runs alone; its docstring says what it measures. Numbers are ratios within one run. The machine should
be idle.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".cache" / "bench"
PACKAGES = {"converse": ["converse-mcp-server@3.6.0"]}  # bench.servers installs its own peer
SCRIPTS = ("start", "commands", "wires", "converse", "v1", "streams", "servers", "skills", "console", "team")


def install() -> None:
    """Install the peers, without running their install scripts."""
    if not shutil.which("npm"):
        print("npm is not installed: only counsel is measured")
        return
    for name, packages in PACKAGES.items():
        folder = PEERS / name
        if (folder / "node_modules").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {' '.join(packages)} …", flush=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run([*command, "--prefix", str(folder), *packages], check=True)


def main(names: list[str]) -> int:
    install()
    status = 0
    for name in names or SCRIPTS:
        print(f"\n── {name}", flush=True)
        status |= subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=ROOT, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
