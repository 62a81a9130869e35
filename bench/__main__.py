"""Every benchmark in one go: `make bench`, or `python -m bench NAME…`. Peers come from npm, into .cache/bench.

Each script also runs by itself and says what it measures. Numbers are ratios of one run; the machine should be quiet.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".cache" / "bench"
PACKAGES = {"converse": ["converse-mcp-server@3.6.0"]}  # bench.servers brings its own peer
SCRIPTS = ("start", "wires", "road", "streams", "servers", "skills")


def install() -> None:
    """Peers are for comparison only: their install scripts do not run."""
    if not shutil.which("npm"):
        print("npm is not here: only counsel itself is measured")
        return
    for name, packages in PACKAGES.items():
        folder = PEERS / name
        if (folder / "node_modules").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {' '.join(packages)} …", flush=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run([*command, "--prefix", str(folder), *packages], check=True)


def main(wanted: list[str]) -> int:
    install()
    failed = 0
    for name in wanted or SCRIPTS:
        print(f"\n── {name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=ROOT, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
