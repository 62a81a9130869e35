from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from counsel import run_paths, settings
from counsel.agents.definitions import ASKABLE
from counsel.caller import Caller
from counsel.doctor import checks
from counsel.doctor import files as doctor_files
from counsel.doctor import online as doctor_online
from counsel.doctor.messages import MESSAGES, Finding
from counsel.engine.store.sqlite import backups, files, recovery
from counsel.types import Limits
from fake import FakeAPI, FakeProcess
from support.pty_screen import in_terminal

KEY = "sk-" + "k" * 40


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "counsel"
    home.mkdir(mode=0o700)
    return {"HOME": str(tmp_path), "COUNSEL_HOME": str(home), "PATH": str(tmp_path / "bin")}


def examine(env: dict[str, str], area: str = "", **more: str) -> list[Finding]:
    caller = Caller(cwd=Path(env["HOME"]), settings=settings.load({**env, **more}))
    return [finding for finding in checks.examine(caller) if area in {"", finding.area}]


def levels(findings: list[Finding]) -> dict[str, str]:
    return {finding.what: finding.level for finding in findings}


def only_finding(findings: list[Finding], level: str) -> Finding:
    (matches,) = (finding for finding in findings if finding.level == level)
    assert matches.todo
    return matches


def test_a_fresh_install_has_no_problem_and_says_what_to_do(env: dict[str, str]) -> None:
    findings = examine(env)
    assert checks.worst(findings) == "warn"
    assert only_finding(findings, "warn").what == "no provider has a key"
    assert {finding.area for finding in findings} == set(checks.CHECKS) - {"settings", "budgets"}


def test_looking_changes_nothing(env: dict[str, str], tmp_path: Path) -> None:
    shutil.rmtree(env["COUNSEL_HOME"])
    examine(env)
    assert not list(tmp_path.iterdir())
    Path(env["COUNSEL_HOME"]).mkdir(mode=0o700)
    examine(env)
    assert [path.name for path in tmp_path.rglob("*")] == ["counsel"]


# ── settings and keys ────────────────────────────────────────────────────────────────────────────────


def test_settings_are_shown_with_their_source_and_secrets_are_not(env: dict[str, str]) -> None:
    (Path(env["COUNSEL_HOME"]) / "config.toml").write_text("max_attempts = 2\nnonsense = 1\n")
    levels_by_text = levels(examine(env, "settings", COUNSEL_TOKEN="hush-hush-hush", COUNSEL_PORT="x"))
    config = Path(env["COUNSEL_HOME"]) / "config.toml"
    assert levels_by_text[f"max_attempts = 2 ({config}: max_attempts)"] == "info"
    assert levels_by_text["token = set (environment variable COUNSEL_TOKEN)"] == "info"
    assert sorted(levels_by_text.values()) == ["info", "info", "problem", "problem"]


def test_a_key_is_named_by_its_source_alone(env: dict[str, str]) -> None:
    findings = examine(
        env, "providers", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"http://me:{KEY}@gate.example/v1"
    )
    (matches,) = (finding.what for finding in findings if finding.what.startswith("OpenAI"))
    assert matches.startswith("OpenAI: key from OPENAI_API_KEY (environment), address http")
    assert KEY not in repr(findings)
    assert checks.worst(findings) == "ok"


def test_a_malformed_key_is_a_warning_that_does_not_show_it(env: dict[str, str]) -> None:
    findings = examine(env, "providers", ANTHROPIC_API_KEY="my-password")
    assert "ANTHROPIC_API_KEY" in only_finding(findings, "warn").what
    assert "my-password" not in repr(findings)


def test_a_bad_row_of_the_users_catalog_is_a_problem(env: dict[str, str]) -> None:
    (Path(env["COUNSEL_HOME"]) / "config.toml").write_text("[providers.mine]\nwire = 'nonsense'\n")
    assert "mine" in only_finding(examine(env, "models"), "problem").what


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_entry_of_the_order_that_matches_no_model_is_a_warning(env: dict[str, str]) -> None:
    result = examine(env, "models", COUNSEL_AUTO_ORDER="gpt-5,google,nosuch,codex")
    wrong = [finding.what for finding in result if finding.level == "warn"]
    assert len(wrong) == 2
    assert "'nosuch'" in wrong[0]
    assert "COUNSEL_AUTO_ORDER" in wrong[0]
    assert "agents are not picked" in wrong[1]


def test_a_folder_open_to_others_is_a_problem(env: dict[str, str]) -> None:
    Path(env["COUNSEL_HOME"]).chmod(0o755)
    result = only_finding(examine(env, "home"), "problem")
    assert "755" in result.what
    assert result.todo == f"chmod 700 '{env['COUNSEL_HOME']}'"


def test_files_matter_only_behind_an_open_folder(env: dict[str, str]) -> None:
    path = Path(env["COUNSEL_HOME"]) / ".env"
    path.write_text("A=1\n")
    path.chmod(0o644)
    assert checks.worst(examine(env, "home")) == "ok"
    Path(env["COUNSEL_HOME"]).chmod(0o750)
    todos = [finding.todo for finding in examine(env, "home") if finding.level == "problem"]
    assert todos == [f"chmod 700 '{env['COUNSEL_HOME']}'", f"chmod 600 '{path}'"]


def test_a_file_in_the_place_of_the_folder_is_a_problem(env: dict[str, str]) -> None:
    Path(env["COUNSEL_HOME"]).rmdir()
    Path(env["COUNSEL_HOME"]).write_text("")
    assert any("not a folder" in text for text in levels(examine(env, "home")))


def test_a_folder_that_cannot_be_written_is_a_problem(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    assert "is not writable" in only_finding(examine(env, "home"), "problem").what


def database(env: dict[str, str]) -> Path:
    path = Path(env["COUNSEL_HOME"]) / "counsel.db"
    files.create(path)
    with closing(recovery.new_file(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
    connection.close()
    return path


def test_a_sound_database(env: dict[str, str]) -> None:
    path = database(env)
    result = examine(env, "database")[0]
    assert result.level == "ok"
    assert re.search(rf"{path} is intact: schema [0-9]+", result.what)


def test_a_database_that_is_in_use_is_sound(env: dict[str, str]) -> None:
    with closing(sqlite3.connect(database(env))) as writer, writer:
        writer.execute("INSERT INTO t VALUES (1)")
        assert examine(env, "database")[0].level == "ok"
    writer.close()


@pytest.mark.parametrize("where", [0, 4096 * 3])
def test_a_damaged_database_is_a_problem(env: dict[str, str], where: int) -> None:
    path = database(env)
    data = bytearray(path.read_bytes())
    data[where : where + 3000] = b"\xee" * 3000
    path.write_bytes(data)
    assert "damaged" in only_finding(examine(env, "database"), "problem").what


def test_a_database_of_a_newer_counsel_is_a_problem(env: dict[str, str]) -> None:
    with closing(sqlite3.connect(database(env))) as connection, connection:
        connection.execute("PRAGMA user_version=9999")
    connection.close()
    assert "newer counsel" in only_finding(examine(env, "database"), "problem").what


def test_a_database_that_takes_too_long_is_not_waited_for(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_files, "DATABASE_SECONDS", -1.0)
    path = Path(env["COUNSEL_HOME"]) / "counsel.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", ((number,) for number in range(200_000)))
    connection.close()
    assert examine(env, "database")[0].level == "warn"


def answer_once(listening: socket.socket) -> None:
    """Answer one line with a line, like a daemon."""
    with listening.accept()[0] as connection:
        connection.recv(100)
        connection.sendall(b"@{}\n")


def test_daemon_running_left_behind_and_none(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = examine(env, "daemon")
    assert (finding.level, finding.what) == ("off", "not running; the next question or MCP client starts it")
    Path(env["COUNSEL_HOME"], "run").mkdir(mode=0o700)
    path = run_paths.socket(env["COUNSEL_HOME"])
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        answering = Thread(target=answer_once, args=(listening,), daemon=True)
        answering.start()
        (finding,) = examine(env, "daemon")
        answering.join(10)
        assert (finding.level, finding.what) == ("ok", f"running ({path})")
        monkeypatch.setattr(doctor_files, "DAEMON_SECONDS", 0.1)
        (finding,) = examine(env, "daemon")  # one that listens and is suspended
        assert (finding.level, "does not answer" in finding.what) == ("problem", True)
    (finding,) = examine(env, "daemon")
    assert (finding.level, "left over from an earlier one" in finding.what) == ("off", True)
    Path(path).unlink()


def test_a_daemon_whose_socket_is_in_tmp_is_seen(tmp_path: Path) -> None:
    """If the default folder cannot be created, the daemon runs without it."""
    (tmp_path / ".local").write_text("")
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    path = run_paths.socket(str(settings.default_home(env)))
    assert path.startswith("/tmp/counsel-")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        answering = Thread(target=answer_once, args=(listening,), daemon=True)
        answering.start()
        assert examine(env, "daemon")[0].what == f"running ({path})"
        answering.join(10)
    Path(path).unlink()
    Path(path).parent.rmdir()
    assert levels(examine(env, "home")) == {f"{settings.default_home(env)} cannot be created": "problem"}
    (finding,) = examine(env, "database")
    assert (finding.level, "cannot be written" in finding.what) == ("off", True)


# ── no false reports ───────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_set_up_has_no_tick(env: dict[str, str]) -> None:
    Path(env["COUNSEL_HOME"]).rmdir()
    findings = examine(env)
    assert {finding.what for finding in findings if finding.level == "ok"} == {findings[0].what}
    off = {finding.area for finding in findings if finding.level == "off"}
    assert off == {"home", "database", "daemon", "team", "providers", "agents", "setup"}


def test_a_key_that_was_not_tested_has_no_tick(env: dict[str, str]) -> None:
    findings = examine(env, "providers", OPENAI_API_KEY=KEY)
    (finding,) = (entry for entry in findings if entry.what.startswith("OpenAI"))
    assert (finding.level, "not tested" in finding.what) == ("info", True)
    assert not any("no provider has a key" in finding.what for finding in findings)


def test_a_local_model_is_running_only_if_it_listens(env: dict[str, str]) -> None:
    (finding,) = (entry for entry in examine(env, "providers") if entry.what.startswith("this machine"))
    assert (finding.level, finding.what) == ("off", "this machine: not set up")
    assert "is not running" not in finding.todo  # it may run in another terminal
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        config = Path(env["COUNSEL_HOME"]) / "config.toml"
        config.write_text(f'[providers.ollama]\nbase_url = "{url}"\n')
        levels_by_text = levels(examine(env, "providers", COUNSEL_LOCAL_BASE_URL=url))
        assert levels_by_text[f"this machine: no server listens at {url} (environment)"] == "warn"
        assert levels_by_text[f"ollama: no server listens at {url} (config.toml)"] == "warn"
        server.listen()
        levels_by_text = levels(examine(env, "providers", COUNSEL_LOCAL_BASE_URL=url))
        assert levels_by_text[f"this machine: a server listens at {url}"] == "ok"
        assert levels_by_text[f"ollama: a server listens at {url}"] == "ok"


@pytest.mark.parametrize("order", ["nosuch", "grok", "codex", "nosuch,grok"])
def test_an_order_without_a_usable_model_is_a_problem(env: dict[str, str], order: str) -> None:
    """auto does not fall back to its own order."""
    problem = only_finding(examine(env, "models", COUNSEL_AUTO_ORDER=order, OPENAI_API_KEY=KEY), "problem")
    assert "`auto` cannot answer" in problem.what
    assert "COUNSEL_AUTO_ORDER" in problem.what


def test_an_order_with_a_usable_model_is_no_problem(env: dict[str, str]) -> None:
    checks = examine(env, "models", COUNSEL_AUTO_ORDER="nosuch,gpt-5", OPENAI_API_KEY=KEY)
    assert [finding.level for finding in checks] == ["info", "warn"]


def test_a_provider_without_models_in_the_order_is_named(env: dict[str, str]) -> None:
    config = Path(env["COUNSEL_HOME"]) / "config.toml"
    config.write_text('auto_order = ["x"]\n[providers.x]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert any("lists no models" in text for text in levels(examine(env, "models")))


def test_a_bad_alias_is_a_problem(env: dict[str, str]) -> None:
    (Path(env["COUNSEL_HOME"]) / "config.toml").write_text('aliases.opus = "nonsense"\n')
    assert "'opus'" in only_finding(examine(env, "models"), "problem").what


@pytest.mark.parametrize("columns", [80, 140])
def test_a_person_sees_marks_and_lines_that_fit(env: dict[str, str], tmp_path: Path, columns: int) -> None:
    screen = in_terminal("doctor", env={**env, "OPENAI_API_KEY": KEY}, cwd=tmp_path, columns=columns)
    assert screen.code == 0
    words = [line for line in screen.lines if len(line) > columns]
    assert all(len(line.split()) <= 2 for line in words)  # a path, alone on its line
    text = screen.text
    assert "  – not running; the next question or MCP client starts it" in text  # noqa: RUF001 - as it is printed
    assert "  – Google: not set up" in text  # noqa: RUF001 - as it is printed
    assert "  ✓ counsel " in text
    assert "  · OpenAI: key from OPENAI_API_KEY" in text


def test_every_sentence_is_on_the_troubleshooting_page() -> None:
    page = (Path(__file__).parents[2] / "docs/use/troubleshooting.md").read_text(encoding="utf-8")
    page = page.partition("<!-- generated: messages -->")[2]
    assert page.count("\n| ✗ | ") == sum(row.level == "problem" for row in MESSAGES.values())
    assert page.count("\n| ! | ") == sum(row.level == "warn" for row in MESSAGES.values())
    assert all(row.todo for row in MESSAGES.values() if row.level == "problem")


def test_agents_are_looked_for_on_the_callers_path(env: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    levels_by_text = levels(examine(env, "agents"))
    assert levels_by_text[f"Codex: {program}"] == "warn"  # here, and not logged in
    assert sum("is not on the PATH" in text for text in levels_by_text) == len(ASKABLE) - 1


def test_it_says_with_which_agents_counsel_is_registered(env: dict[str, str], tmp_path: Path) -> None:
    (finding,) = examine(env, "setup")
    assert (finding.level, finding.todo) == ("off", "`counsel setup` registers it.")
    entry = {"type": "stdio", "command": sys.executable, "args": ["-m", "counsel", "stdio"]}
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"counsel": entry}}))
    assert levels(examine(env, "setup")) == {"counsel is registered with Claude Code": "ok"}


def test_an_entry_whose_python_has_gone_is_a_problem(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(
        '[mcp_servers.counsel]\ncommand = "/gone/bin/python"\nargs = ["-P", "-m", "counsel", "stdio"]\n'
    )
    (result,) = examine(env, "setup")  # and no tick
    assert result.level == "problem"
    assert result.what == "Codex cannot start counsel: /gone/bin/python does not exist"


def test_an_entry_whose_program_is_not_on_the_path_is_named(env: dict[str, str], tmp_path: Path) -> None:
    entry = {"type": "stdio", "command": "counsel", "args": ["stdio"]}
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"counsel": entry}}))
    (result,) = examine(env, "setup")
    assert result.level == "warn"
    assert result.what == "Claude Code starts counsel as `counsel`, which is not on this PATH"
    program = tmp_path / "bin" / "counsel"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert levels(examine(env, "setup")) == {"counsel is registered with Claude Code": "ok"}


def test_an_agents_file_that_cannot_be_read_is_named(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text('model = "x\n')
    os.utime(tmp_path / ".codex/config.toml", (1e9, 1e9))  # long ago: nobody waits for its writer
    result = only_finding(examine(env, "setup"), "warn")
    assert result.what.count("config.toml") == 1
    assert "line 1" in result.what


def test_a_check_that_breaks_is_a_finding_and_hides_nothing(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(_caller: Any) -> Iterator[Any]:
        yield from ()
        raise RuntimeError(f"with {KEY}")

    monkeypatch.setitem(checks.CHECKS, "home", break_down)
    findings = examine(env)
    assert "RuntimeError" in only_finding(findings, "problem").what
    assert KEY not in repr(findings)
    assert findings[-1].area == [*checks.CHECKS][-1]


# ── --online ─────────────────────────────────────────────────────────────────────────────────────────

KEYS = {
    "OPENAI_API_KEY": KEY,
    "GOOGLE_API_KEY": "g" * 40,
    "ANTHROPIC_API_KEY": "sk-ant-" + "a" * 40,
    "OPENROUTER_API_KEY": "sk-or-v1-" + "b" * 64,
}


def online(env: dict[str, str], fake: FakeAPI, **more: str) -> Caller:
    addresses = {
        "OPENAI_BASE_URL": fake.v1,
        "GOOGLE_GEMINI_BASE_URL": fake.url,
        "ANTHROPIC_BASE_URL": fake.url,
        "OPENROUTER_BASE_URL": fake.v1,
    }
    return Caller(settings=settings.load({**env, **KEYS, **addresses, **more}))


async def test_every_provider_is_reached_with_its_key(env: dict[str, str], fake_api: FakeAPI) -> None:
    findings = await doctor_online.reach(online(env, fake_api))
    assert [finding.level for finding in findings] == ["ok"] * 4
    assert all(finding.what.endswith("key accepted") for finding in findings)
    paths = sorted(request.path for request in fake_api.log.requests)
    assert paths == ["/v1/key", "/v1/models", "/v1/models", "/v1beta/models"]


async def test_a_refused_key_is_a_problem_that_does_not_show_it(
    env: dict[str, str], fake_api: FakeAPI
) -> None:
    fake_api.keys = set(KEYS.values()) - {KEY}
    findings = await doctor_online.reach(online(env, fake_api))
    result = only_finding(findings, "problem")
    assert result.what == "OpenAI: the key is not accepted"
    assert KEY not in repr(findings)


async def test_a_provider_that_is_not_there_is_a_problem_and_the_others_are_reached(
    env: dict[str, str], fake_api: FakeAPI
) -> None:
    with socket.socket() as listener:  # bound and not listening: nobody else can take the port
        listener.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{listener.getsockname()[1]}"
        findings = await doctor_online.reach(online(env, fake_api, ANTHROPIC_BASE_URL=dead))
    assert only_finding(findings, "problem").what.startswith("Anthropic: ")
    assert [finding.level for finding in findings].count("ok") == 3


async def test_a_provider_that_never_answers_is_given_up(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_online, "ONLINE", Limits(total=0.2, connect=0.2, attempts=1))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        caller = Caller(settings=settings.load({**env, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": address}))
        (result,) = await doctor_online.reach(caller)
    assert result.level == "problem"


async def test_without_a_provider_there_is_nothing_to_reach(env: dict[str, str]) -> None:
    assert "no provider is set up" in (await doctor_online.reach(Caller(settings=settings.load(env))))[0].what


# ── through the command ──────────────────────────────────────────────────────────────────────────────


def counsel(env: dict[str, str], *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counsel", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**env, **more})


def test_findings_are_printed_for_people_and_for_programs(env: dict[str, str]) -> None:
    result = counsel(env)
    assert (result.returncode, result.stderr) == (0, "")
    assert "problems: 0, warnings: 1" in result.stdout
    assert "\x1b" not in result.stdout
    result = counsel(env, "--json", COUNSEL_PORT="x", XAI_API_KEY=KEY)
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert document["level"] == "problem"
    assert document["counts"]["problem"] == 1
    assert KEY not in result.stdout + result.stderr
    assert next(row for row in document["findings"] if row["level"] == "problem")["todo"]


def test_online_reaches_the_providers(env: dict[str, str], fake_process: FakeProcess) -> None:
    more = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": fake_process.v1}
    result = counsel(env, "--online", **more)
    assert result.returncode == 0, result.stdout
    assert "OpenAI: reached in" in result.stdout


def test_a_bad_config_a_bad_key_and_a_bad_disk_at_once_are_all_named(env: dict[str, str]) -> None:
    home = Path(env["COUNSEL_HOME"])
    (home / "config.toml").write_text("port = = 3\n[providers.mine]\nwire = 1\n")
    (home / "counsel.db").write_bytes(b"no database" * 100)
    home.chmod(0o755)
    document = json.loads(counsel(env, "--json", OPENAI_API_KEY="bad").stdout)
    assert {row["area"] for row in document["findings"] if row["level"] == "problem"} == {
        "settings",
        "home",
        "database",
        "models",
    }


# ── --repair ─────────────────────────────────────────────────────────────────────────────────────────


def overwrite_part(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"no database" * 1000)


def repair_findings(env: dict[str, str], *arguments: str) -> list[str]:
    result = counsel(env, "--repair", "--json", *arguments)
    return [row["what"] for row in json.loads(result.stdout)["findings"] if row["area"] == "repair"]


def test_repair_replaces_a_damaged_database_only_after_a_yes_and_moves_it_aside(env: dict[str, str]) -> None:
    path = database(env)
    assert backups.make(path)
    overwrite_part(path)
    before = path.read_bytes()
    assert any("is damaged: it is not a database" in text for text in repair_findings(env))
    assert path.read_bytes() == before
    assert any("A new one was made from the backup of" in text for text in repair_findings(env, "--yes"))
    (aside,) = recovery.damaged_files(path)
    assert aside.read_bytes() == before
    after = json.loads(counsel(env, "--json").stdout)["findings"]
    assert any("is intact" in row["what"] for row in after)
    assert any("moved aside" in row["what"] for row in after if row["level"] == "warn")


def test_repair_also_finds_an_index_that_lacks_rows_of_its_table(env: dict[str, str]) -> None:
    path = database(env)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE INDEX by_a ON t (a)")
        index = connection.execute("SELECT * FROM sqlite_master WHERE name = 'by_a'").fetchone()
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'by_a'")
    with closing(sqlite3.connect(path)) as connection, connection:  # which knows of no index
        connection.execute("UPDATE t SET a = 'other' WHERE rowid = 1")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", index)
    (text,) = repair_findings(env)
    assert "is damaged: row 1 missing from index by_a" in text


def test_repair_restores_a_missing_database_and_closes_what_is_open_to_others(env: dict[str, str]) -> None:
    path = database(env)
    assert backups.make(path)
    path.unlink()
    path.parent.chmod(0o755)
    result = repair_findings(env, "--yes")
    assert any("is now private to its owner" in text for text in result)
    assert any("the backup of" in text for text in result)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_repair_gives_an_old_files_free_pages_back(env: dict[str, str]) -> None:
    path = database(env)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
        connection.execute("DELETE FROM t")
    assert any(text.startswith("freed ") for text in repair_findings(env))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


def test_an_emptied_database_is_not_intact(env: dict[str, str]) -> None:
    path = database(env)
    with path.open("w"):
        pass
    assert "it is empty" in only_finding(examine(env, "database"), "problem").what


def repaired(env: dict[str, str]) -> list[Finding]:
    from counsel.doctor import repair

    return repair.repair(Caller(settings=settings.load(env)), lambda _: True)


def test_repair_leaves_a_running_daemon_alone(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counsel.doctor.repair.daemon_runs", lambda _: True)
    (matches,) = repaired(env)
    assert "a daemon is running" in matches.what


def test_repair_of_a_home_that_does_not_exist_creates_none(env: dict[str, str], tmp_path: Path) -> None:
    (finding,) = repaired({**env, "COUNSEL_HOME": str(tmp_path / "none")})
    assert (finding.level, finding.what) == ("ok", f"{tmp_path / 'none'} does not exist: nothing to repair")
    assert not (tmp_path / "none").exists()


def test_repair_takes_others_rights_and_leaves_the_owners(env: dict[str, str]) -> None:
    home = Path(env["COUNSEL_HOME"])
    modes = {
        "folder": (0o755, 0o700),
        "file": (0o644, 0o600),
        "read_only": (0o444, 0o400),
        "own": (0o500, 0o500),
    }
    (home / "folder").mkdir()
    for name, (before, _) in modes.items():
        (home / name).touch()
        (home / name).chmod(before)
    findings = repaired(env)
    assert {name: (home / name).stat().st_mode & 0o777 for name in modes} == {
        name: after for name, (_, after) in modes.items()
    }
    assert [finding.what for finding in findings if "private" in finding.what] == [
        f"{home / name} is now private to its owner" for name in ("file", "folder", "read_only")
    ]


def test_repair_of_a_compact_database_frees_nothing_and_does_not_say_so(env: dict[str, str]) -> None:
    database(env)
    repaired(env)
    assert not any("freed" in finding.what for finding in repaired(env))


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(28, "No space left on device"), "No space left on device"), (sqlite3.Error("bad"), "bad")],
)
def test_a_repair_that_fails_says_why(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fails(_: Path) -> int:
        raise error

    database(env)
    monkeypatch.setattr("counsel.doctor.repair.maintenance.compact", fails)
    (finding,) = repaired(env)
    assert (finding.level, finding.what) == ("problem", f"the repair failed: {reason}")


def test_a_budget_of_an_unknown_provider_limits_nothing_and_is_named(env: dict[str, str]) -> None:
    findings = examine(env, "budgets", COUNSEL_BUDGET_DAY_OPENIA="2", COUNSEL_BUDGET_MONTH_OPENAI="9")
    warning = only_finding(findings, "warn")
    assert warning.what == "the day's budget for openia limits nothing: there is no such provider"
    assert "openai" in warning.todo
    assert len(findings) == 1
