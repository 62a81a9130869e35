"""Whether each agent connects to counsel, according to the agent itself.

Claude Code and Gemini CLI connect when they list their servers; Codex reports through its app-server. The entries of
other clients are started as those clients would start them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from counsel import paths, untrusted
from counsel.agents import start_folder, trust
from counsel.agents.definitions import workspace_of
from counsel.agents.self_entry import NAME
from counsel.cli.setup.plan import Step
from counsel.mcp.tools import TOOLS
from counsel.servers import check as servers_check
from counsel.servers.service import Servers
from counsel.types import Json

SECONDS = 60.0
_Verdict: TypeAlias = tuple[bool, str]
_TRUSTED = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
_NOT_IN_THIS_FOLDER = (
    "Gemini CLI connects, but not in this folder: it disables all MCP servers in folders that it does not trust. "
    "Start `gemini` here once and trust the folder."
)
_HINT = "`{}` shows more; `counsel servers check counsel` starts the entry itself."


async def check(steps: list[Step], env: Mapping[str, str], seconds: float = SECONDS) -> None:
    """Fill in `connected` and `message` of every step that has an entry; all agents at once."""
    await asyncio.gather(*(_check_agent(step, env, seconds) for step in steps if has_entry(step)))


def has_entry(step: Step) -> bool:
    return (bool(step.program) or "ask" not in step.agent.can) and step.action in {
        "added",
        "updated",
        "unchanged",
    }


async def _check_agent(step: Step, env: Mapping[str, str], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            step.connected, step.message = await _CHECKS.get(step.agent.name, _start_entry)(step, env)
    except TimeoutError:
        step.connected = False
        step.message = f"{step.agent.label} did not report within {seconds:g} s whether it connects."
    except (OSError, ValueError) as error:
        step.connected = False
        step.message = f"Could not ask {step.agent.label} whether it connects: {error}."


async def _claude(step: Step, env: Mapping[str, str]) -> _Verdict:
    line = _line(await _mcp_list(step, env))
    if "Connected" in line:
        return True, "Claude Code connects."
    return False, f"Claude Code says: {line or 'no line about counsel'}. {_HINT.format('claude mcp list')}"


async def _gemini(step: Step, env: Mapping[str, str]) -> _Verdict:
    line = _line(await _mcp_list(step, {**env, **_TRUSTED}))
    if line.endswith("- Connected"):
        return True, "Gemini CLI connects." if _gemini_trusts_this_folder(env) else _NOT_IN_THIS_FOLDER
    return False, f"Gemini CLI says: {line or 'no line about counsel'}. {_HINT.format('gemini mcp list')}"


def _gemini_trusts_this_folder(env: Mapping[str, str]) -> bool:
    return trust.by_agent("gemini", workspace_of(env, paths.current_folder())) is True


async def _codex(step: Step, env: Mapping[str, str]) -> _Verdict:
    status = await _codex_status(step, env)
    missing = set(TOOLS) - set(status.get("tools") or {})
    if not missing:
        return True, f"Codex connects and sees {len(TOOLS)} tools."
    reason = str(status.get("toolsError") or f"it does not see {', '.join(sorted(missing))}").split(" [", 1)[
        0
    ]
    return False, f"Codex says: {reason[:300]}. {_HINT.format('codex mcp get counsel')}"


async def _start_entry(step: Step, env: Mapping[str, str]) -> _Verdict:
    """Start the entry as the client would."""
    servers, label = Servers.here(env=env), step.agent.label
    (row, *_rest) = servers.find(NAME, [step.agent.name], "user")
    result = await servers_check.check_one(row, servers.workspace, SECONDS)
    if result.status == "ok":
        return (
            True,
            f"{label}'s entry starts and answers; {label} itself was not asked. Its settings show the server.",
        )
    message = f"{label}'s entry does not answer: {result.error}. `counsel servers check counsel` shows more."
    return False, message


_CHECKS: dict[str, Callable[[Step, Mapping[str, str]], Awaitable[_Verdict]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
}


def _line(output: str) -> str:
    """The line about counsel in a listing: `counsel: … - ✔ Connected`, `✓ counsel: … - Connected`."""
    lines = (line.strip() for line in output.splitlines())
    return next((line for line in lines if line.lstrip("✓✔✗✘○… ").startswith(f"{NAME}:")), "")


async def _mcp_list(step: Step, env: Mapping[str, str]) -> str:
    process = await _start(step, env, "mcp", "list")
    try:
        output, _ = await process.communicate()
    finally:
        await _kill(process)
    return output.decode(errors="replace")


async def _codex_status(step: Step, env: Mapping[str, str]) -> Json:
    process = await _start(step, env, "app-server", stderr=asyncio.subprocess.DEVNULL)
    assert process.stdin is not None  # `_start` opens both
    assert process.stdout is not None
    requests = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": NAME, "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "mcpServerStatus/list", "params": {}},
    )
    try:
        process.stdin.write("".join(json.dumps(line) + "\n" for line in requests).encode())
        while line := await process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == 2:
                rows = (answer.get("result") or {}).get("data") or []
                failure = {
                    "toolsError": (answer.get("error") or {}).get("message") or "it has no such server"
                }
                return next((dict(row) for row in rows if row.get("name") == NAME), failure)
    finally:
        await _kill(process)
    raise ValueError("it ended")


async def _start(
    step: Step,
    env: Mapping[str, str],
    *args: str,
    stderr: int = asyncio.subprocess.STDOUT,
) -> asyncio.subprocess.Process:
    """Start the agent in an empty folder. To answer, it starts all of the user's servers, and those would import
    modules from its working folder."""
    empty = str(start_folder.empty_folder(workspace_of(env, paths.current_folder()), step.agent.name))
    return await asyncio.create_subprocess_exec(
        str(step.program),
        *args,
        env=untrusted.env_in_folder(env, empty),
        cwd=empty,
        stdin=asyncio.subprocess.PIPE if args[0] == "app-server" else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=1 << 24,
        start_new_session=True,
    )


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process with all its children: a client that hangs must not stay."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
