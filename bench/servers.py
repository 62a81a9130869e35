"""`counsel servers list` and `add --everywhere` on a home with a 6.6 MB ~/.claude.json, against add-mcp from npm.

    python bench/servers.py [RUNS]

add-mcp is installed into a scratch folder under .cache. Both get a fresh copy of the same home for every run, and they
alternate, so that a busy machine slows both. Ratios are of medians. Targets: list at most 0.5, add at most 0.15, and
each edit of the user's or a project's entries at most 0.5 seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ADD_MCP = "add-mcp@2.4"
AGENTS = ("claude-code", "codex", "gemini-cli", "cursor")
TARGETS = {"list": 0.5, "add": 0.15}
# In this order, in one home; `touch` is a write of the file by another program.
EDITS = {
    "add": "add one --agent claude -- npx -y a-server",
    "update": "update one --agent claude -e NAME=value",
    "add --scope local": "add two --agent claude --scope local -- npx -y a-server",
    "disable --scope local": "disable two --agent claude --scope local",
    "remove --scope local": "remove two --agent claude --scope local",
    "undo": "undo",
    "touch": "",
    "undo after another's write": "undo",
    "remove --everywhere": "remove old --everywhere",
}
SECONDS = 0.5
SCRATCH = Path(__file__).resolve().parents[1] / ".cache" / "bench"


def peer() -> Path | None:
    """The path of add-mcp, installed if necessary; None without npm."""
    program = SCRATCH / "node_modules" / ".bin" / "add-mcp"
    if not program.exists() and shutil.which("npm"):
        SCRATCH.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(SCRATCH), ADD_MCP]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return program if program.exists() else None


def project(number: int) -> dict[str, Any]:
    tools = [f"Bash(git {verb}:*)" for verb in ("add", "commit", "push", "log", "diff", "status")]
    model = {"inputTokens": number, "outputTokens": 7, "cacheReadInputTokens": 9, "costUSD": 0.25}
    return {
        "allowedTools": tools,
        "history": [
            {"display": f"please look at file {turn} and fix it", "pastedContents": {}} for turn in range(35)
        ],
        "mcpContextUris": [],
        "mcpServers": {},
        "enabledMcpjsonServers": [],
        "disabledMcpjsonServers": [],
        "hasTrustDialogAccepted": True,
        "lastCost": 1.5,
        "lastAPIDuration": 123456,
        "lastModelUsage": {"claude-opus": model, "claude-haiku": model},
        "lastSessionId": "00000000-0000-0000-0000-000000000000",
    }


def make_home(home: Path) -> None:
    """A home like Claude Code's after some months: projects with histories, costs and tools (invented)."""
    entry = {"type": "stdio", "command": "npx", "args": ["-y", "a-server"], "env": {}}
    claude = {
        "numStartups": 100,
        "tipsHistory": {f"tip-{number}": number for number in range(60)},
        "mcpServers": {"old": entry},
        "projects": {f"/home/u/project-{number}": project(number) for number in range(1390)},
        "userID": "0" * 64,
    }
    (home / ".claude.json").write_text(json.dumps(claude, indent=2))
    (home / ".claude").mkdir()
    files = {
        ".codex/config.toml": '# mine\nmodel = "x"\n\n[mcp_servers.old]\ncommand = "npx"\nargs = ["-y", "a-server"]\n',
        ".gemini/settings.json": '{\n  // mine\n  "mcpServers": {}\n}\n',
        ".cursor/mcp.json": '{\n  "mcpServers": {}\n}\n',
    }
    for name, text in files.items():
        (home / name).parent.mkdir()
        (home / name).write_text(text)


def timed(command: list[str], template: Path) -> tuple[float, float]:
    """Wall-clock and CPU seconds, in a fresh copy of the home."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        shutil.copytree(template, home)
        env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "COUNSEL_HOME": str(home / "counsel"),
            "CI": "1",
        }
        before = os.times()
        began = time.perf_counter()
        process = subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        took = time.perf_counter() - began
        after = os.times()
        if process.returncode:
            raise RuntimeError(
                f"{command[0]}: {process.stderr.decode()[-500:]}{process.stdout.decode()[-500:]}"
            )
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return took, cpu


def edits(counsel: list[str], template: Path) -> dict[str, float]:
    """Seconds of each edit in a fresh copy of the home, start-up included."""
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        shutil.copytree(template, home)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "COUNSEL_HOME": str(home / "counsel")}
        for name, command in EDITS.items():
            if name == "touch":
                file = home / ".claude.json"
                file.write_text(file.read_text().replace('"numStartups": 100', '"numStartups": 101'))
                continue
            began = time.perf_counter()
            subprocess.run(
                [*counsel, *command.split()],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
            )
            took[name] = time.perf_counter() - began
    return took


def measure(runs: int = 7) -> dict[str, Any]:
    counsel = [str(Path(sys.executable).with_name("counsel")), "servers"]
    commands = {
        "list": {"counsel": [*counsel, "list"]},
        "add": {"counsel": [*counsel, "add", "bench", "--everywhere", "--", "npx", "-y", "a-server"]},
    }
    if program := peer():
        agents = [part for agent in AGENTS for part in ("-a", agent)]
        commands["list"]["add-mcp"] = [str(program), "list", "-g", *agents]
        commands["add"]["add-mcp"] = [str(program), "npx -y a-server", "-g", "-y", "-n", "bench", *agents]
    with tempfile.TemporaryDirectory() as folder:
        make_home(Path(folder))
        size = Path(folder, ".claude.json").stat().st_size
        samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
        edit_times: list[dict[str, float]] = []
        for _ in range(runs):
            for name, by_peer in commands.items():
                for peer_name, command in by_peer.items():
                    samples.setdefault((name, peer_name), []).append(timed(command, Path(folder)))
            edit_times.append(edits(counsel, Path(folder)))
    report: dict[str, Any] = {"claude_json_bytes": size, "runs": runs}
    for name, by_peer in commands.items():
        rows: dict[str, Any] = {peer_name: _medians(samples[name, peer_name]) for peer_name in by_peer}
        report[name] = rows
        if "add-mcp" in rows:
            for unit in ("seconds", "cpu_seconds"):
                rows[f"{unit}_ratio"] = round(rows["counsel"][unit] / rows["add-mcp"][unit], 3)
            rows["bar"] = TARGETS[name]
    report["edits"] = {
        name: round(statistics.median(times[name] for times in edit_times), 3) for name in edit_times[0]
    } | {"bar": SECONDS}
    return report


def _medians(rows: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "seconds": round(statistics.median(row[0] for row in rows), 3),
        "cpu_seconds": round(statistics.median(row[1] for row in rows), 3),
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 7), indent=2))
