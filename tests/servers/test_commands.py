"""`counsel servers …` on the command line, as people and scripts use it."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib

import pytest

from support.user import User


def test_everywhere_adds_to_every_agent_and_remove_everywhere_takes_it_out(user: User) -> None:
    reply = user.json("add", "x", "--everywhere", "-e", "A=1", "--", "python3", "-m", "x")
    assert {row["agent"]: row["action"] for row in reply["results"]} == dict.fromkeys(
        ["claude", "codex", "gemini", "cursor"], "added"
    )
    rows = user.json("list")["servers"]
    assert [(row["agent"], row["command"], row["args"], row["env"]) for row in rows] == [
        (agent, "python3", ["-m", "x"], {"A": "1"}) for agent in ("claude", "codex", "gemini", "cursor")
    ]
    assert all(row["drift"] == [] and row["enabled"] and row["scope"] == "user" for row in rows)
    again = user.json("add", "x", "--everywhere", "-e", "A=1", "--", "python3", "-m", "x")
    assert {row["action"] for row in again["results"]} == {"unchanged"}
    assert again["id"] is None
    user.json("remove", "x", "--everywhere")
    assert user.json("list") == {"servers": [], "problems": []}


def test_one_refusal_stops_all(user: User) -> None:
    reply = user.json("add", "x", "--everywhere", "--url", "http://127.0.0.1:9/sse", "-t", "sse", code=1)
    assert reply["code"] == "INVALID_ARGUMENT"
    assert {row["agent"] for row in reply["results"] if row["action"] == "refused"} == {"codex"}
    assert "does not support sse" in reply["error"]
    assert not any(user.file(agent).exists() for agent in ("claude", "codex", "gemini", "cursor"))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_name_with_a_space_is_refused(agent: str, user: User) -> None:
    assert "does not accept the name" in user.json("add", "a b", "-a", agent, "--", "c", code=1)["error"]


def test_what_claude_ignores_is_reported(user: User) -> None:
    reply = user.json("add", "x", "--agent", "claude,codex", "--cwd", "/srv", "--", "c")
    assert "ignores a working folder" in reply["results"][0]["warnings"][0]
    assert reply["results"][1]["warnings"] == []
    assert "cwd" not in user.file("claude").read_text()
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"]["cwd"] == "/srv"


def test_an_existing_server_is_not_overwritten(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "one")
    before = user.file("codex").read_bytes()
    assert user.json("add", "x", "-a", "codex", "--", "two", code=1)["code"] == "CONFLICT"
    assert user.file("codex").read_bytes() == before
    user.counsel("add", "x", "-a", "codex", "--replace", "--", "two")
    assert user.json("show", "x")["servers"][0]["command"] == "two"


def test_a_dry_run_writes_nothing_and_is_what_the_real_run_does(user: User) -> None:
    user.write("gemini", '{\n  "mcpServers": {} // none\n}\n')
    before = {name: user.file(name).exists() for name in ("claude", "codex", "cursor")}
    command = ("add", "x", "--everywhere", "-H", "X-A: 1", "--url", "http://127.0.0.1:9/mcp")
    diff = user.counsel(*command, "--dry-run")
    assert {name: user.file(name).exists() for name in before} == before
    assert not (user.counsel_home / "backups").exists()
    folder = user.home / "patched"
    folder.mkdir()
    (folder / "settings.json").write_bytes(user.file("gemini").read_bytes())
    parts = {part.splitlines()[0]: "--- " + part for part in diff.split("--- ")[1:]}
    mine = parts[str(user.file("gemini"))].split("\nClaude Code:")[0] + "\n"
    named = mine.replace(str(user.file("gemini")), "settings.json")
    subprocess.run(["git", "apply", "-p0", "--unidiff-zero"], input=named, text=True, check=True, cwd=folder)
    user.counsel(*command)
    assert (folder / "settings.json").read_bytes() == user.file("gemini").read_bytes()


def test_a_diff_has_the_lines_of_the_file(user: User) -> None:
    user.write("cursor", '{\n  "a": "\u2028\x85",\n  "mcpServers": {}\n}\n')
    (row,) = user.json("add", "x", "-a", "cursor", "--dry-run", "--", "c")["diffs"]
    assert '\n   "a": "\u2028\x85",\n' in row["diff"]
    assert "No newline" not in row["diff"]


def test_update_touches_only_the_named_fields(user: User) -> None:
    text = (
        '{ // mine\n  "mcpServers": {\n    "x": {\n      "httpUrl": "http://127.0.0.1:9/a", // old form\n'
        '      "unknown": {"deep": [1, 2]}, "headers": {"A": "1"},\n      "timeout": 600000\n    }\n  }\n}\n'
    )
    user.write("gemini", text)
    user.counsel("update", "x", "--url", "http://127.0.0.1:9/b", "-H", "B: 2")
    expected = text.replace("9/a", "9/b").replace('{"A": "1"}', '{"A": "1", "B": "2"}')
    assert user.file("gemini").read_text() == expected
    user.counsel("update", "x", "--remove-header", "B", "--url", "http://127.0.0.1:9/a")
    assert user.file("gemini").read_text() == text


def test_update_keeps_comments_and_tables_of_toml(user: User) -> None:
    text = (
        '[mcp_servers.x] # mine\ncommand = "one" # why\nargs = [\n  "a", # first\n]\nstartup_timeout_sec = 20\n\n'
        '[mcp_servers.x.env]\n# secret\nA = "1"\n'
    )
    user.write("codex", text)
    user.counsel("update", "x", "-e", "A=2", "-e", "B=$B", "--timeout", "5")
    assert user.file("codex").read_text() == text.replace('A = "1"', 'A = "2"').replace(
        "startup_timeout_sec = 20\n", 'startup_timeout_sec = 20\nenv_vars = ["B"]\ntool_timeout_sec = 5.0\n'
    )


def test_several_places_must_be_named(user: User) -> None:
    user.counsel("add", "x", "--everywhere", "--", "c")
    assert "several places" in user.json("remove", "x", code=1)["error"]
    user.counsel("remove", "x", "-a", "gemini")
    assert {row["agent"] for row in user.json("list")["servers"]} == {"claude", "codex", "cursor"}
    assert user.json("remove", "nope", code=1)["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    "flags",
    [
        ("--url", "nowhere"),
        ("--url", "ftp://127.0.0.1/"),
        ("--url", "http://127.0.0.1:9/", "-H", "A B: c"),
        ("--url", "http://127.0.0.1:9/", "-H", "A: b\nC: d"),
        ("--url", "http://127.0.0.1:9/", "--token-env", "A B"),
        ("--timeout", "1e300", "--", "c"),
        ("--", "c", "\udcff"),
        ("-e", "A=\udcff", "--", "c"),
        ("--url", "https://"),
        ("--url", "https:///path"),
        ("--url", "http://127.0.0.1/a b"),
        ("--include-tool", "", "--", "c"),
        ("--", "  "),
    ],
)
def test_what_no_client_could_use_is_refused(flags: tuple[str, ...], user: User) -> None:
    user.counsel("add", "x", "--everywhere", *flags, code=1)
    assert user.json("list")["servers"] == []


@pytest.mark.parametrize("seconds", ["inf", "nan"])
def test_a_time_limit_that_is_no_finite_number_is_refused(seconds: str, user: User) -> None:
    user.counsel("add", "x", "--everywhere", "--timeout", seconds, "--", "c", code=2)
    assert user.json("list")["servers"] == []


@pytest.mark.parametrize(("seconds", "milliseconds"), [("1.001", 1001), ("0.0001", 1), ("30", 30000)])
def test_a_time_limit_is_a_whole_number_of_milliseconds(seconds: str, milliseconds: int, user: User) -> None:
    """Claude Code ignores a server whose `timeout` is 1000.9999999999999."""
    user.counsel("add", "x", "-a", "claude,gemini", "--timeout", seconds, "--", "c")
    for agent in ("claude", "gemini"):
        assert f'"timeout": {milliseconds}\n' in user.file(agent).read_text()


def test_one_bad_file_does_not_hide_the_others(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--", "c")
    user.write("codex", "[mcp_servers.x\n")
    user.write("gemini", '{"mcpServers": {"broken": {}, "fine": {"command": "c"}}}')
    user.write("cursor", '{"mcpServers": []}')
    os.utime(user.file("codex"), (1, 1))
    result = user.json("list")
    assert [(row["agent"], row["name"]) for row in result["servers"]] == [("claude", "x"), ("gemini", "fine")]
    problems = {(row["agent"], row.get("name")): row for row in result["problems"]}
    assert problems["codex", None]["line"] == 1
    assert problems["gemini", "broken"]["error"] == "it has neither a command nor a url"
    assert ("cursor", None) in problems
    assert "problem:" not in user.counsel("list")
    assert user.err.count("problem:") == 3
    user.counsel("remove", "broken", "-a", "gemini")
    assert user.json("add", "y", "--everywhere", "--", "c", code=1)["code"] == "CONFIG_INVALID"
    assert '"y"' not in user.file("claude").read_text()


def test_a_server_that_one_of_two_clients_cannot_read_is_removed_from_both(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--", "c")
    user.write("gemini", '{"mcpServers": {"x": {}, "fine": {"command": "c"}}}')
    user.counsel("remove", "x", "-a", "claude,gemini")
    result = user.json("list")
    assert [(row["agent"], row["name"]) for row in result["servers"]] == [("gemini", "fine")]
    assert result["problems"] == []


def test_drift_between_agents_is_marked(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--", "c", "one")
    user.counsel("add", "x", "-a", "codex", "--", "c", "two")
    assert {tuple(row["drift"]) for row in user.json("list")["servers"]} == {("args",)}
    assert "differs: args" in user.counsel("list")


def test_what_is_undone_already_is_reported_and_can_be_made_again(user: User) -> None:
    first = user.json("add", "a", "-a", "codex", "--", "x")["id"]
    undo = user.json("undo", first)["id"]
    assert undo in user.json("undo", first, code=1)["error"]
    user.json("undo", undo)
    assert [row["name"] for row in user.json("list")["servers"]] == ["a"]
    assert (
        user.json("undo")["undone"]["id"] == first
    )  # it is there again, so it is the last that can be undone


def test_nothing_to_do_is_unchanged_and_still_says_what_is_left_out(user: User) -> None:
    user.counsel("add", "x", "-a", "codex,claude", "--", "c")
    user.json("disable", "x", "-a", "codex")
    assert user.json("disable", "x", "-a", "codex")["results"][0]["action"] == "unchanged"
    (remaining,) = user.json("update", "x", "-a", "claude", "--include-tool", "t")["results"]
    assert (remaining["action"], len(remaining["warnings"])) == ("unchanged", 1)


def test_a_refusal_names_the_agents_that_could(user: User) -> None:
    user.counsel("add", "x", "--everywhere", "--", "c")
    assert user.json("disable", "x", "--everywhere", code=1)["hint"].endswith("--agent claude,codex,gemini.")


def test_an_empty_list_of_changes_says_so(user: User) -> None:
    result = user.run("undo", "--list")
    assert (result.code, result.out, result.err) == (0, "", "No changes are recorded.\n")
    assert user.json("undo", "--list") == {"operations": []}


def test_undo_by_id_and_last(user: User) -> None:
    user.write("gemini", '{ "theme":"x" }')
    first = user.json("add", "one", "--everywhere", "--", "c")["id"]
    user.json("add", "two", "-a", "gemini", "--", "c")
    assert user.json("undo", first)["undone"]["id"] == first
    assert [row["name"] for row in user.json("list")["servers"]] == ["two"]
    user.counsel("undo")
    assert json.loads(user.file("gemini").read_text()) == {"theme": "x", "mcpServers": {}}
    assert user.json("undo", code=1)["code"] == "NOT_FOUND"


def test_adding_and_removing_gives_the_same_bytes_even_where_a_table_had_to_be_made(user: User) -> None:
    texts = {
        "claude": '{"numStartups": 4,"big": 123456789012345678901234567890}',
        "codex": 'model = "x" # mine',
        "gemini": '{\r\n\t// mine\r\n\t"ui": {}\r\n}\r\n',
        "cursor": "{ }",
    }
    for agent, text in texts.items():
        user.write(agent, text)
    user.counsel("add", "x", "--everywhere", "-e", "A=1", "--", "c", "d")
    user.counsel("remove", "x", "--everywhere")
    assert {agent: user.file(agent).read_bytes().decode() for agent in texts} == texts


@pytest.mark.parametrize(
    "args",
    [
        ("add", "x", "--", "c"),
        ("add", "-a", "claude"),
        ("add", "x", "-a", "nobody", "--", "c"),
        ("add", "x", "-a", "claude", "--url", "u", "--", "c"),
        ("add", "x", "-a", "claude", "-e", "NOVALUE", "--", "c"),
        ("add", "x", "-a", "claude", "--everywhere", "--", "c"),
        ("update", "x", "-a", "claude"),
        ("copy", "x", "--from", "nobody", "--to", "codex"),
    ],
)
def test_bad_usage_is_exit_2(args: tuple[str, ...], user: User) -> None:
    user.counsel(*args, code=2)


def test_listing_starts_nothing(user: User) -> None:
    flag = user.home / "started"
    user.counsel("add", "x", "-a", "claude", "--", "touch", str(flag))
    user.counsel("list")
    user.counsel("show", "x")
    assert not flag.exists()


def test_every_refusal_is_an_answer(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--", "c")
    words = user.json(
        "add", "x", "-a", "claude,codex,gemini", "-t", "sse", "--url", "http://127.0.0.1:9/", code=1
    )
    assert "Claude Code already has" in words["error"]
    assert "Codex does not support sse" in words["error"]
    assert words["hint"].endswith("--agent gemini.")


def test_drift_is_marked_beside_a_shadowed_server(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--", "first")
    user.counsel("add", "x", "-a", "claude", "-s", "local", "--", "second")
    user.counsel("add", "x", "-a", "gemini", "--", "third")
    row = next(line for line in user.counsel("list").splitlines() if line.startswith("x "))
    assert "stdio third" in row
    assert "differs: command" in row
    assert "claude: shadowed by local" in row


@pytest.mark.parametrize("entry", [{"type": "http"}, {"type": "http", "command": "c"}, {"type": "stdio"}])
def test_what_claude_leaves_out_is_a_problem(entry: dict[str, str], user: User) -> None:
    user.write("claude", json.dumps({"mcpServers": {"x": entry, "y": {"command": "c"}}}))
    result = user.json("list")
    assert [row["name"] for row in result["servers"]] == ["y"]
    assert [
        (row["name"], "ignores it" in row["error"] or "neither" in row["error"]) for row in result["problems"]
    ] == [("x", True)]


def test_gemini_starts_a_command_whatever_the_type_says(user: User) -> None:
    user.write("gemini", '{"mcpServers": {"x": {"type": "http", "command": "c"}}}')
    assert user.json("show", "x")["servers"][0]["transport"] == "stdio"


@pytest.mark.parametrize("command", [("remove",), ("disable",), ("update", "-e", "A=1")])
def test_everywhere_is_all_or_none_beside_a_file_that_cannot_be_read(
    command: tuple[str, ...], user: User
) -> None:
    user.counsel("add", "x", "-a", "claude,codex", "--", "c")
    before = user.file("codex").read_bytes()
    broken = user.write("cursor", "{ bad")
    os.utime(broken, (1, 1))
    reply = user.json(command[0], "x", "--everywhere", *command[1:], code=1)
    assert (reply["code"], str(broken) in reply["error"]) == ("CONFIG_INVALID", True)
    assert "--agent claude,codex" in reply["hint"]
    assert user.file("codex").read_bytes() == before
    user.counsel(command[0], "x", "-a", "claude,codex", *command[1:])
    assert user.file("codex").read_bytes() != before


def test_a_hint_names_a_broken_file_once(user: User) -> None:
    broken = user.write("cursor", "{ bad")
    os.utime(broken, (1, 1))
    assert user.json("show", "x", code=1)["hint"].count(str(broken)) == 1


def test_headers_are_the_same_in_capitals_or_not(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--url", "http://127.0.0.1:9/", "-H", "X-A: 1", "-H", "B: 1")
    user.counsel("update", "x", "-H", "x-a: 2", "--remove-header", "b")
    assert user.json("show", "x")["servers"][0]["headers"] == {"X-A": "2"}


def test_fields_are_taken_out(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    before = user.file("codex").read_bytes()
    tools = ("--include-tool", "a", "--exclude-tool", "b")
    user.counsel("update", "x", "--timeout", "5", "--cwd", "/srv", *tools, "--", "c", "arg")
    fields = ("timeout", "cwd", "include-tool", "exclude-tool", "args")
    user.counsel("update", "x", *(word for name in fields for word in ("--unset", name)))
    assert user.file("codex").read_bytes() == before


def test_an_empty_list_of_agents_is_not_every_agent(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    user.json("remove", "x", "--agent", "", code=2)
    assert user.json("list")["servers"]


def test_show_quotes_ambiguous_strings(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "-e", "A=one\ntwo", "--", "c", "a b", "", "plain")
    output = user.counsel("show", "x")
    assert '  args: "a b" "" plain\n' in output
    assert '  env: A="one\\ntwo"\n' in output
