"""How setup reads what an agent's own command prints about counsel, and how it ends a command that hangs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.agents import start_folder
from counsel.agents.definitions import AGENTS
from counsel.cli.setup import command as setup
from counsel.cli.setup import verify as setup_verify
from counsel.cli.setup.plan import Step
from counsel.mcp.tools import TOOLS
from counsel.servers import Servers
from counsel.servers import check as servers_check


@pytest.mark.parametrize(
    ("check", "line", "connects"),
    [
        ("_claude", "counsel: counsel stdio - ✔ Connected", True),
        ("_claude", "counsel: counsel stdio - ✘ Failed to connect", False),
        ("_claude", "", False),
        ("_gemini", "✓ counsel: counsel stdio (stdio) - Connected", True),
        ("_gemini", "✗ counsel: counsel stdio (stdio) - Disconnected", False),
        ("_gemini", "", False),
    ],
)
async def test_only_a_connection_is_a_success(
    monkeypatch: pytest.MonkeyPatch, check: str, line: str, connects: bool
) -> None:
    async def mcp_list(_step: Any, _env: Any) -> str:
        return f"other: x - Connected\n{line}\n"

    monkeypatch.setattr(setup_verify, "_mcp_list", mcp_list)
    verdict = await getattr(setup_verify, check)(None, {})
    assert verdict[0] is connects
    if not connects:
        assert (line or "no line about counsel") in verdict[1]


async def test_a_command_that_hangs_is_ended_with_its_children() -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 600 & echo ready; wait", stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"ready\n"
        await setup_verify._kill(process)
        assert process.returncode == -9
        assert await process.stdout.read() == b""  # at an end only when the child, too, has closed it
    await setup_verify._kill(process)  # already gone


# ── the agents' own programs ─────────────────────────────────────────────────────────────────────────

APP_SERVER = """#!/bin/sh
while read -r line; do case "$line" in
*'"id": 2'*) echo '{"method":"note"}'; echo '{"id":1,"result":{}}'; echo '%s' ;;
esac; done
"""


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Step:
    """A step for Codex, whose program is written by each test."""
    monkeypatch.setattr(start_folder, "empty_folder", lambda *_: tmp_path)
    return Step(agent=AGENTS["codex"], program=tmp_path / "codex", action="added")


def write(step: Step, script: str) -> None:
    assert step.program is not None
    step.program.write_text(script)
    step.program.chmod(0o755)


def codex_row(**fields: object) -> str:
    rows = [{"name": "other", "tools": {}}, {"name": "counsel", **fields}]
    return json.dumps({"id": 2, "result": {"data": rows}})


@pytest.mark.parametrize(
    ("answer", "connects", "words"),
    [
        (codex_row(tools=dict.fromkeys(TOOLS)), True, f"Codex connects and sees {len(TOOLS)} tools."),
        (
            codex_row(tools=dict.fromkeys(name for name in TOOLS if name != "chat")),
            False,
            "it does not see chat. `codex mcp get",
        ),
        (
            codex_row(toolsError="No such file [os error 2] [more]"),
            False,
            "Codex says: No such file. `codex mcp get",
        ),
        (codex_row(toolsError="x" * 400), False, f"Codex says: {'x' * 300}. `codex"),
        ('{"id": 2, "result": {"data": []}}', False, "Codex says: it has no such server. "),
        ('{"id": 2, "error": {"message": "not now"}}', False, "Codex says: not now. "),
    ],
)
async def test_codex_is_asked_for_its_servers_tools(
    step: Step, answer: str, connects: bool, words: str
) -> None:
    write(step, APP_SERVER % answer)
    await setup_verify.check([step], {"PATH": "/usr/bin:/bin"})
    assert (step.connected, words in step.message) == (connects, True), step.message


async def test_the_program_that_was_asked_is_ended(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    write(step, APP_SERVER % codex_row(tools={}))
    killed: list[int] = []
    kill = setup_verify._kill

    async def noted(process: asyncio.subprocess.Process) -> None:
        await kill(process)
        assert process.returncode is not None
        killed.append(process.returncode)

    monkeypatch.setattr(setup_verify, "_kill", noted)
    await setup_verify.check([step], {"PATH": "/usr/bin:/bin"})
    assert killed == [-9]
    listing = Step(agent=AGENTS["claude"], program=step.program, action="unchanged")
    write(listing, "#!/bin/sh\necho 'counsel: x - \u2714 Connected'\n")
    await setup_verify.check([listing], {"PATH": "/usr/bin:/bin"})
    assert (listing.connected, len(killed)) == (True, 2)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\nexit 0\n", "Could not ask Codex whether it connects: it ended."),
        ("#!/bin/sh\nread x; echo 'no json'\n", "Could not ask Codex whether it connects: "),
        ("#!/nowhere/sh\n", "Could not ask Codex whether it connects: "),
    ],
)
async def test_a_program_that_cannot_answer_is_no_success(step: Step, script: str, words: str) -> None:
    write(step, script)
    await setup_verify.check([step], {"PATH": "/usr/bin:/bin"})
    assert step.connected is False
    assert words in step.message


async def test_a_program_that_does_not_answer_is_not_waited_for(step: Step) -> None:
    write(step, "#!/bin/sh\nsleep 600\n")
    await setup_verify.check([step], {"PATH": "/usr/bin:/bin"}, 0.2)
    assert step.connected is False
    assert step.message == "Codex did not report within 0.2 s whether it connects."


@pytest.mark.parametrize(
    ("name", "program", "action", "is_checked"),
    [
        ("codex", "codex", "added", True),
        ("codex", "codex", "updated", True),
        ("codex", "codex", "unchanged", True),
        ("codex", "codex", "removed", False),
        ("codex", "codex", "refused", False),
        ("codex", None, "added", False),
        ("vscode", None, "added", True),  # a client without a program of its own
    ],
)
def test_which_agents_are_asked(name: str, program: str | None, action: str, is_checked: bool) -> None:
    step = Step(agent=AGENTS[name], program=Path(program) if program else None, action=action)
    assert setup_verify.has_entry(step) is is_checked


@pytest.mark.parametrize(("status", "connects"), [("ok", True), ("failed", False)])
async def test_the_entry_of_another_client_is_started(
    monkeypatch: pytest.MonkeyPatch, status: str, connects: bool
) -> None:
    async def check_one(row: str, _workspace: object, _seconds: float) -> Any:
        assert row == "the user's"
        return SimpleNamespace(status=status, error="it ended")

    here = SimpleNamespace(find=lambda *_: ["the user's", "another"], workspace=None)
    monkeypatch.setattr(Servers, "here", lambda **_: here)
    monkeypatch.setattr(servers_check, "check_one", check_one)
    step = Step(agent=AGENTS["vscode"], program=None, action="added")
    await setup_verify.check([step], {})
    assert step.connected is connects
    assert ("starts and answers" if connects else "does not answer: it ended.") in step.message


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("action", ["added", "absent"])
def test_people_are_told_that_agents_are_asked_and_programs_are_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, action: str, as_json: bool
) -> None:
    async def no_check(_steps: object, _env: object) -> None:
        """Nothing."""

    monkeypatch.setattr(setup_verify, "check", no_check)
    setup._check([Step(agent=AGENTS["codex"], program=Path("codex"), action=action)], as_json=as_json)
    is_told = "Checking that the agents connect" in capsys.readouterr().err
    assert is_told is (action == "added" and not as_json)
