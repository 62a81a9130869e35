"""`counsel skills list`, `show` and `matrix`, through the command line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from counsel.agents.definitions import WITH_SKILLS
from counsel.skills.discover import list_skills
from skills import sample_skills
from skills.sample_skills import add_skill, plain, variants, write
from support.user import User


def test_an_empty_home_has_no_skills(user: User) -> None:
    output = user.run("list")
    assert (output.code, output.out) == (0, "")
    assert "No skill found here." in output.err
    assert user.run("list", "--json").json == {"skills": [], "problems": []}
    assert user.run("matrix").code == 0


def test_each_agent_reads_its_own_folders_and_commands(user: User) -> None:
    add_skill(user, "~/.claude", "one")
    add_skill(user, "~/.agents", "two")
    add_skill(user, ".gemini", "three")
    add_skill(user, ".codex", "four")
    add_skill(user, ".cursor", "five")
    document = user.run("list", "--json").json["skills"]
    assert {(skill["agent"], skill["scope"], skill["command"]) for skill in document} == {
        ("claude", "user", "/one"),
        ("codex", "user", "$two"),
        ("codex", "project", "$four"),
        ("gemini", "user", "/two"),
        ("gemini", "project", "/three"),
        ("cursor", "user", "/one"),
        ("cursor", "user", "/two"),
        ("cursor", "project", "/four"),
        ("cursor", "project", "/five"),
    }
    assert all(skill["accepted"] and not skill["problems"] for skill in document)
    assert document[0]["path"] == str(user.home / ".claude" / "skills" / "one" / "SKILL.md")


@pytest.mark.parametrize("settings", [".claude/settings.json", ".gemini/settings.json"])
def test_a_repositorys_pipe_does_not_hold_up_the_list(user: User, settings: str) -> None:
    """Opening the pipe would wait forever."""
    add_skill(user, "~/.agents", "two")
    pipe = user.project / settings
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    keep_open = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    os.write(keep_open, b"{}")
    document = user.run("list", "--json").json
    assert "two" in {entry["name"] for entry in document["skills"]}
    assert [entry for entry in document["problems"] if "not a regular file" in entry and settings in entry]
    assert os.read(keep_open, 2) == b"{}"  # it was not opened
    os.close(keep_open)


def test_filters_and_search_words(user: User) -> None:
    add_skill(user, "~/.claude", "tidy", plain("tidy", "Sweep the Floor"))
    add_skill(user, ".claude", "paint", plain("paint", "colour the walls"))

    def names(*options: str) -> list[str]:
        return [skill["name"] for skill in user.run("list", *options, "--json").json["skills"]]

    assert names("--agent", "claude", "--scope", "project") == ["paint"]
    assert names("--agent", "claude,codex", "floor", "SWEEP") == ["tidy"]
    assert names("nothing like it") == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("list", "--agent", "nobody"), "nobody"),
        (("list", "--scope", "moon"), "moon"),
        (("share", "x"), "Name the agents"),
        (("share", "x", "--to", "claude", "--everywhere"), "Name the agents"),
        (("share", "x", "--to", "nobody"), "nobody"),
    ],
)
def test_bad_usage_is_exit_2_and_says_what(user: User, arguments: tuple[str, ...], word: str) -> None:
    output = user.run(*arguments)
    assert (output.code, output.out) == (2, "")
    assert word in output.err


def test_no_skill_is_lost_however_broken_its_neighbours(user: User) -> None:
    sample_skills.texts(user.home / ".claude" / "skills")
    sample_skills.texts(user.home / ".agents" / "skills")
    document = user.run("list", "--json").json["skills"]
    for agent, folder in {
        "claude": ".claude",
        "codex": ".agents",
        "gemini": ".agents",
        "cursor": ".agents",
    }.items():
        base = user.home / folder / "skills"
        names = {
            Path(skill["path"]).parent.name
            for skill in document
            if skill["agent"] == agent and str(base) in skill["path"]
        }
        assert names == set(sample_skills.TEXTS), agent
    assert all(skill["problems"] for skill in document if not skill["accepted"])


def test_the_reason_is_a_sentence(user: User) -> None:
    for name in ("bom", "long-name", "no-description", "unclosed", "colon-in-description", "huge"):
        add_skill(user, "~/.claude", name, sample_skills.TEXTS[name])  # type: ignore[arg-type]
        add_skill(user, "~/.agents", name, sample_skills.TEXTS[name])  # type: ignore[arg-type]
    document = user.run("list", "--json").json["skills"]
    why = {
        (skill["agent"], Path(skill["path"]).parent.name): " ".join(skill["problems"])
        for skill in document
        if skill["state"] != "shadowed"
    }
    assert "byte-order mark" in why["codex", "bom"]
    assert "byte-order mark" in why["gemini", "bom"]
    assert "too long" in why["codex", "long-name"]
    assert "no description" in why["codex", "no-description"]
    assert "only as a slash command" in why["claude", "no-description"]
    assert "not closed" in why["gemini", "unclosed"]
    assert "too large" in why["claude", "huge"]
    assert why["codex", "colon-in-description"] == ""


def test_duplicates_name_the_one_that_is_used(user: User) -> None:
    twin = add_skill(user, "~/.claude", "twin")
    add_skill(user, ".claude", "twin")
    shadowed_skill = next(
        skill
        for skill in user.run("list", "--agent", "claude", "--json").json["skills"]
        if not skill["accepted"]
    )
    assert shadowed_skill["scope"] == "project"
    assert shadowed_skill["shadowed_by"] == str(twin / "SKILL.md")
    assert "duplicate" in shadowed_skill["problems"][0]


def test_links_and_loops_and_pipes(user: User, tmp_path: Path) -> None:
    for folder in (".claude", ".agents"):
        sample_skills.shapes(user.home / folder / "skills", tmp_path / f"outside{folder}")
        sample_skills.pipe(user.home / folder / "skills")
    document = user.run("list", "--json").json["skills"]
    assert {skill["agent"] for skill in document} == set(WITH_SKILLS)
    pipes = [skill for skill in document if skill["path"].endswith("pipe/SKILL.md")]
    assert pipes
    assert not any(skill["accepted"] for skill in pipes)
    skill_by_link = next(
        skill for skill in document if skill["agent"] == "claude" and skill["name"] == "linked"
    )
    assert skill_by_link["links_to"] == str(tmp_path / "outside.claude" / "linked-folder" / "SKILL.md")


def test_an_unreachable_folder_is_skipped_with_a_message(user: User) -> None:
    (user.home / ".agents").mkdir()
    (user.home / ".agents" / "skills").symlink_to("skills")  # a link to itself
    add_skill(user, "~/.claude", "still-here")
    document = user.run("list", "--json").json
    assert "still-here" in {skill["name"] for skill in document["skills"]}
    assert any(".agents/skills" in problem and "skipped" in problem for problem in document["problems"])


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads everything; the self-linked folder stands in for it"
)
def test_a_folder_without_permission_is_skipped_with_a_message(user: User) -> None:
    folder = add_skill(user, "~/.claude", "closed").parent
    folder.chmod(0)
    try:
        document = user.run("list", "--json").json
    finally:
        folder.chmod(0o700)
    assert any("permission denied" in problem for problem in document["problems"])


@pytest.mark.parametrize(
    "broken", ["{nope", "[]", '{"enabledPlugins": 5}', '{"enabledPlugins": {"a@b": true}}', "\xff"]
)
def test_broken_settings_never_hide_skills(user: User, broken: str) -> None:
    add_skill(user, "~/.claude", "fine")
    add_skill(user, "~/.agents", "fine-too")
    for path in (
        ".claude/settings.json",
        ".claude/plugins/installed_plugins.json",
        ".gemini/settings.json",
        ".codex/config.toml",
    ):
        write(user.home / path, broken)
    names = {skill["name"] for skill in user.run("list", "--json").json["skills"]}
    assert names == {"fine", "fine-too"}


PLUGIN = "~/.claude/plugins/cache/mk/plug/1"
MARKET = "~/.claude/plugins/marketplaces/mk"
SETTINGS: dict[str, Any] = {
    ".claude/settings.json": {
        "enabledPlugins": {"plug@mk": True},
        "skillOverrides": {"fine": "off"},
        "extraKnownMarketplaces": {"mk": {"source": {"source": "directory", "path": MARKET}}},
    },
    ".claude/plugins/known_marketplaces.json": {
        "mk": {"source": {"source": "github", "repo": "a/b"}, "installLocation": MARKET}
    },
    ".claude/plugins/installed_plugins.json": {
        "version": 2,
        "plugins": {"plug@mk": [{"scope": "project", "installPath": PLUGIN, "projectPath": "/x"}]},
    },
    ".claude/plugins/marketplaces/mk/.claude-plugin/marketplace.json": {
        "name": "mk",
        "plugins": [{"name": "plug", "source": "./plug", "skills": ["./s"]}],
    },
    ".claude/plugins/cache/mk/plug/1/.claude-plugin/plugin.json": {"name": "plug", "skills": "./s"},
    ".gemini/settings.json": {
        "security": {"folderTrust": {"enabled": True}},
        "skills": {"disabled": ["x"], "enabled": True},
    },
    ".gemini/trustedFolders.json": {"/x": "TRUST_FOLDER", "/": "TRUST_PARENT"},
    ".gemini/extensions/e/gemini-extension.json": {"name": "e", "version": "1"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_another_shape_never_hide_skills(
    user: User, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE")
    for where in ("~/.claude", "~/.agents", PLUGIN, f"{MARKET}/plug", "~/.gemini/extensions/e"):
        add_skill(user, where, "fine")
    home = str(user.home)
    for setting, value in SETTINGS.items():
        write(user.home / setting, json.dumps(value).replace("~", home))
    for odd in variants(SETTINGS[name]):
        write(user.home / name, json.dumps(odd).replace("~", home))
        result = list_skills(project=user.project).skills
        assert {"claude", "codex", "gemini", "cursor"} == {skill.agent for skill in result}


def test_an_unreadable_list_of_trusted_folders_is_reported_and_trusts_nothing(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE")
    add_skill(user, "./.gemini", "fine")
    path = write(user.home / ".gemini" / "trustedFolders.json", "{ // half")
    listing = list_skills(project=user.project, agents=["gemini"])
    assert [skill.state for skill in listing.skills] == ["untrusted"]
    assert [problem.startswith(f"{path}: cannot be read") for problem in listing.problems] == [True]


def test_codex_settings_of_another_shape_never_hide_skills(user: User) -> None:
    add_skill(user, "~/.agents", "fine")
    for odd in ('path = "\\u0000"', "path = 1", "name = []", 'name = {a = "b"}'):
        write(user.home / ".codex" / "config.toml", f"[[skills.config]]\nenabled = false\n{odd}\n")
        assert "fine" in {skill.name for skill in list_skills(project=user.project, agents=["codex"]).skills}


def test_codex_settings_in_toml_1_1_are_no_problem(user: User) -> None:
    add_skill(user, "~/.agents", "fine")
    write(user.home / ".codex" / "config.toml", 'tui = {\n  theme = "dark", # mine\n}\n')
    assert list_skills(project=user.project, agents=["codex"]).problems == ()


def test_what_comes_with_an_agent_is_no_copy(user: User) -> None:
    add_skill(user, "~/.claude", "skill-creator")
    write(
        add_skill(user, "~/.codex", ".system/skill-creator", plain("skill-creator")) / "more.md", "only here"
    )
    document = user.run("list", "--json").json["skills"]
    assert {"codex system", "claude user"} <= {f"{skill['agent']} {skill['scope']}" for skill in document}
    assert not [skill for skill in document if "drift" in skill["codes"]]


def test_drift_between_copies_is_marked(user: User) -> None:
    add_skill(user, "~/.claude", "same")
    add_skill(user, "~/.agents", "same")
    add_skill(user, "~/.claude", "apart")
    write(add_skill(user, "~/.agents", "apart") / "notes.md", "only here")
    document = user.run("list", "--json").json["skills"]
    assert {skill["name"] for skill in document if "drift" in skill["codes"]} == {"apart"}
    of_one = user.run("list", "--agent", "codex", "--json").json["skills"]  # the other copy is Claude's
    assert {skill["name"]: skill["codes"] for skill in of_one} == {"same": [], "apart": ["drift"]}
    rows = {row["name"]: row for row in user.run("matrix", "--json").json["rows"]}
    assert (rows["same"]["copies"], rows["same"]["identical"]) == (2, True)
    assert (rows["apart"]["copies"], rows["apart"]["identical"]) == (2, False)


def test_the_matrix_says_who_has_what(user: User) -> None:
    add_skill(user, "~/.claude", "mine")
    add_skill(user, "~/.agents", "everybodys")
    add_skill(user, "~/.agents", "broken", "no frontmatter")
    rows = {row["name"]: row["agents"] for row in user.run("matrix", "--json").json["rows"]}
    assert rows["mine"] == {"claude": "own", "codex": "missing", "gemini": "missing", "cursor": "shared"}
    assert rows["everybodys"] == {
        "claude": "missing",
        "codex": "shared",
        "gemini": "shared",
        "cursor": "shared",
    }
    assert rows["broken"]["codex"] == "refused"
    lines = user.run("matrix").out.splitlines()
    assert lines[0].split() == ["SKILL", "CLAUDE", "CODEX", "GEMINI", "CURSOR", "CONTENT"]
    assert len(lines) == 4


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────

RICH = """---
name: Tool_Box
description: Mends things.
allowed-tools: Bash(git add:*), Read Write
license: MIT
---
# Tools

Use them **well**.
"""


def test_show_lists_text_files_tools_and_what_to_fix(user: User) -> None:
    folder = add_skill(user, "~/.claude", "tool-box", RICH)
    write(folder / "scripts" / "mend.py", "print()")
    details = user.run("show", "tool-box", "--json").json
    assert details["command"] == "/tool-box"
    assert details["text"].startswith("# Tools")
    assert details["allowed_tools"] == ["Bash(git add:*)", "Read", "Write"]
    assert [file["path"] for file in details["files"]] == ["SKILL.md", "scripts/mend.py"]
    wrong = {finding["rule"]: finding for finding in details["check"] if not finding["ok"]}
    assert set(wrong) == {"name", "folder"}
    assert "tool-box" in wrong["name"]["mend"]


@pytest.mark.parametrize("name", ["tool-box", "/tool-box", "PATH", "FOLDER"])
def test_a_skill_is_shown_by_name_command_or_path(user: User, name: str) -> None:
    folder = add_skill(user, "~/.claude", "tool-box", RICH)
    name = {"PATH": str(folder / "SKILL.md"), "FOLDER": str(folder)}.get(name, name)
    output = user.run("show", name)
    assert output.code == 0
    assert "**well**" in output.out  # in a pipe, the text as it was written
    assert "\x1b" not in output.out
    assert "fix:" in output.out


def test_a_good_skill_keeps_the_rules(user: User) -> None:
    add_skill(user, "~/.claude", "good")
    assert "follows the agentskills.io rules" in user.run("show", "good").out


def test_an_unknown_name_lists_similar_names(user: User) -> None:
    add_skill(user, "~/.claude", "tool-box", RICH)
    output = user.run("show", "tol-box", "--json")
    assert output.code == 1
    assert output.json["code"] == "NOT_FOUND"
    assert "tool-box" in output.json["hint"]


# ── hostile and strange ──────────────────────────────────────────────────────────────────────────────


def test_a_description_cannot_control_the_terminal(user: User) -> None:
    add_skill(user, "~/.claude", "sly", plain("sly", "\x1b[2Jgone \u202eturned"))
    for messages in (user.run("list"), user.run("show", "sly")):
        assert "\x1b" not in messages.out + messages.err
        assert "\u202e" not in messages.out + messages.err


def test_a_name_that_is_no_text_is_listed(user: User) -> None:
    folder = os.fsencode(user.home) + b"/.claude/skills/bad\xff"
    os.makedirs(folder)  # noqa: PTH103 - a name of bytes
    with open(folder + b"/SKILL.md", "w") as file:  # noqa: PTH123 - a name that is not UTF-8
        file.write(plain("odd"))
    assert user.run("list").code == 0
    assert user.run("list", "--json").json["skills"][0]["name"] == "bad\udcff"


def test_a_folder_that_is_gone_is_bad_input_not_a_crash(user: User, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    document = user.run("list", "--json").json
    assert (document["code"], document["error"]) == ("NOT_FOUND", "The current folder no longer exists.")
    assert user.run("list", "--project", "/no/such/place").code in {1, 2}


def test_a_terminal_gets_the_text_rendered(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    add_skill(user, "~/.claude", "tool-box", RICH)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    output = user.run("show", "tool-box")
    assert "\x1b[1mwell" in output.out
    assert "**well**" not in output.out


def test_claude_plugins_as_its_own_commands_wrote_them(user: User) -> None:
    """With the files in tests/golden that `claude plugin install` and `disable` wrote."""
    golden = Path(__file__).parents[1] / "golden" / "claude"
    for case, expected in {
        "plugin-install": ["plug:pskill"],
        "plugin-disable": [],
        "plugin-marketplace-add": [],
    }.items():
        home = shutil.copytree(golden / case / "home", user.home / case)
        for path in home.rglob("*.json"):
            path.write_text(path.read_text().replace("/home/u", str(home)))
        write(home / "marketplace" / ".claude-plugin" / "marketplace.json", MARKET)
        if case == "plugin-install":
            shutil.copytree(home / ".claude/plugins/cache/mk/plug/1.0.0", home / "marketplace" / "plug")
        listing = list_skills(agents=["claude"], project=user.project, env={"HOME": str(home)})
        assert [skill.name for skill in listing.skills if skill.accepted] == expected, case


MARKET = '{"name": "mk", "owner": {"name": "o"}, "plugins": [{"name": "plug", "source": "./plug"}]}'
