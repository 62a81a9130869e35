"""counsel's list equals the real client's own list, for a home and a project full of odd skills."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from counsel.agents.skill_format import Skill
from counsel.skills.discover import list_skills
from counsel.skills.share import share_skill
from counsel.skills.unshare import undo_sharing
from skills import real_clients, sample_skills, scenarios
from skills.sample_skills import plain, write
from skills.scenarios import CODEX_PLUGINS, PLUGINS, plugin
from support.client_programs import CLIENTS

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("skills-clients")]

TRUST = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def listed_skills(agent: str, home: Path, cwd: Path, **env: str) -> list[Skill]:
    listing = list_skills(agents=[agent], project=cwd, env={"HOME": str(home), **TRUST, **env})
    return list(listing.skills)


def repository(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


# ── the comparisons ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> real_clients.ClaudeList:
    """The skills that come with Claude Code."""
    empty = tmp_path_factory.mktemp("empty")
    return real_clients.claude(empty, empty)


def same_as_claude(home: Path, cwd: Path, bundled: real_clients.ClaudeList, **env: str) -> None:
    # ours first: a run of Claude may record a plugin that it found in its cache
    result = [
        skill
        for skill in listed_skills("claude", home, cwd, **env)
        if skill.state == "loaded" and skill.command
    ]
    reply = real_clients.claude(home, cwd, **env)
    names = {skill.name for skill in result}
    assert not names & set(bundled.commands), "a sample uses the name of a skill that comes with Claude"
    assert names == set(reply.commands) - set(bundled.commands)
    assert {skill.name for skill in result if skill.description} == set(reply.skills) - set(bundled.skills)


CODEX_SCOPES = {"project": "repo", "plugin": "user"}


def same_as_codex(home: Path, cwd: Path, **env: str) -> None:
    reply = real_clients.codex(home, cwd, **env)
    result = [skill for skill in listed_skills("codex", home, cwd, **env) if skill.scope != "system"]
    expected = {
        (skill.name, CODEX_SCOPES.get(skill.scope, skill.scope), str(skill.real), skill.accepted)
        for skill in result
        if skill.state in {"loaded", "disabled"}
    }
    theirs = [entry for entry in reply["skills"] if entry["scope"] != "system"]
    assert expected == {(entry["name"], entry["scope"], entry["path"], entry["enabled"]) for entry in theirs}
    assert {
        str(skill.real): _codex_kind(skill.notes[0].message) for skill in result if skill.state == "refused"
    } == {entry["path"]: _codex_kind(entry["message"]) for entry in reply["errors"]}
    assert {str(skill.real): skill.description for skill in result if skill.state == "loaded"} == {
        entry["path"]: entry["description"]
        for entry in reply["skills"]
        if entry["scope"] != "system" and entry["enabled"]
    }


def _codex_kind(message: str) -> str:
    """Codex's message; of YAML and UTF-8 errors only the kind, because their details depend on the parser."""
    message = message.removeprefix("Codex rejects it: ").partition(" (")[0]
    return next(
        (kind for kind in ("invalid YAML", "failed to read file") if message.startswith(kind)), message
    )


def same_as_gemini(home: Path, cwd: Path, **env: str) -> None:
    reply = real_clients.gemini(home, cwd, **env)
    result = listed_skills("gemini", home, cwd, PATH=str(CLIENTS), **env)
    assert {skill.name for skill in result if skill.scope == "system"} >= {
        entry.name for entry in reply if entry.builtin
    }
    # Which of two skills in one folder wins depends on timing: of those, only the folder is compared.
    duplicates = {(skill.name, skill.folder.parent) for skill in result if skill.state == "shadowed"}
    assert {
        (
            _last_line(skill.name),
            _place(skill.path, (skill.name, skill.folder.parent) in duplicates),
            skill.accepted,
        )
        for skill in result
        if skill.state in {"loaded", "disabled"}
    } == {
        (
            entry.name,
            _place(Path(entry.location), (entry.name, Path(entry.location).parents[1]) in duplicates),
            entry.enabled,
        )
        for entry in reply
    }


def _place(path: Path, is_nested: bool) -> Path:
    return path.parents[1] if is_nested else path


def _last_line(name: str) -> str:
    """The last line of a name: `gemini skills list` prints all lines, of which the test reads the last one."""
    return name.rpartition("\n")[2]


# ── texts and shapes ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A home with every text and a project with every shape, in each folder that an agent reads."""
    top = tmp_path_factory.mktemp("full")
    home, project = top / "home", repository(top / "project")
    for folder in (".claude", ".agents"):
        sample_skills.texts(home / folder / "skills")
        sample_skills.shapes(project / folder / "skills", top / f"outside{folder}")
    for folder in (".codex", ".gemini"):
        sample_skills.shapes(home / folder / "skills", top / f"outside-home{folder}")
    return home, project


def test_claude_texts_and_shapes(full: tuple[Path, Path], bundled: real_clients.ClaudeList) -> None:
    same_as_claude(*full, bundled)


def test_codex_texts_and_shapes(full: tuple[Path, Path]) -> None:
    same_as_codex(*full)


def test_gemini_texts_and_shapes(full: tuple[Path, Path]) -> None:
    same_as_gemini(*full)


@pytest.fixture(scope="module")
def random_headers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Four hundred generated headers."""
    top = tmp_path_factory.mktemp("chance")
    for folder in (".claude", ".agents"):
        sample_skills.texts(top / "home" / folder / "skills", sample_skills.generated(5, 400))
    return top / "home", repository(top / "project")


def test_claude_random_headers(random_headers: tuple[Path, Path], bundled: real_clients.ClaudeList) -> None:
    same_as_claude(*random_headers, bundled)


def test_codex_random_headers(random_headers: tuple[Path, Path]) -> None:
    same_as_codex(*random_headers)


def test_gemini_random_headers(random_headers: tuple[Path, Path]) -> None:
    same_as_gemini(*random_headers)


# ── folders, precedence, settings ────────────────────────────────────────────────────────────────────


@pytest.fixture
def nested(tmp_path: Path) -> tuple[Path, Path, Path]:
    repository(tmp_path / "up" / "repo")
    return scenarios.nested(tmp_path)


def test_claude_walks_up_and_the_user_wins(
    nested: tuple[Path, Path, Path], bundled: real_clients.ClaudeList
) -> None:
    home, repo, cwd = nested
    scenarios.claude_overrides(home, repo, cwd)
    for folder in (cwd, repo, home):
        same_as_claude(home, folder, bundled)
    same_as_claude(home, cwd, bundled, CLAUDE_CONFIG_DIR=str(repo / ".claude"))


def test_claude_without_git_walks_to_the_home_or_the_top(
    tmp_path: Path, bundled: real_clients.ClaudeList
) -> None:
    inside = tmp_path / "home" / "work" / "deep"
    for folder in (tmp_path, tmp_path / "home", inside.parent, inside):
        write(folder / ".claude" / "skills" / f"at-{folder.name}" / "SKILL.md", plain("x"))
    same_as_claude(tmp_path / "home", inside, bundled)
    same_as_claude(tmp_path / "other", inside, bundled)


def test_codex_layers_namespaces_and_switches(nested: tuple[Path, Path, Path]) -> None:
    home, repo, cwd = nested
    scenarios.codex_layers(home, repo)
    for folder in (cwd, repo, home):
        same_as_codex(home, folder)
    write(home / ".codex" / "config.toml", 'project_root_markers = [".hg"]\n')
    (repo / "a" / ".hg").mkdir()
    same_as_codex(home, cwd)
    (repo / "moved").mkdir()
    same_as_codex(home, cwd, CODEX_HOME=str(repo / ".codex"))


@pytest.mark.parametrize("case", CODEX_PLUGINS)
def test_codex_plugins(case: str, tmp_path: Path) -> None:
    home, repo = tmp_path / "home", repository(tmp_path / "repo")
    scenarios.codex_plugin(home, *CODEX_PLUGINS[case])
    same_as_codex(home, repo)


def test_codex_without_git_reads_the_folder_only(nested: tuple[Path, Path, Path], tmp_path: Path) -> None:
    same_as_codex(tmp_path / "nobody", tmp_path / "up")


def test_gemini_trust_switches_extensions_and_a_moved_home(nested: tuple[Path, Path, Path]) -> None:
    home, repo, cwd = nested
    scenarios.gemini_settings(home)
    same_as_gemini(home, cwd)
    same_as_gemini(home, cwd, GEMINI_CLI_TRUST_WORKSPACE="")
    write(
        home / ".gemini" / "trustedFolders.json",
        json.dumps({str(repo): "TRUST_FOLDER", str(cwd): "DO_NOT_TRUST"}),
    )
    same_as_gemini(home, repo, GEMINI_CLI_TRUST_WORKSPACE="")
    same_as_gemini(home, cwd, GEMINI_CLI_TRUST_WORKSPACE="")
    same_as_gemini(home, cwd, GEMINI_CLI_HOME=str(repo))
    same_as_gemini(home, home)


# ── Claude's plugins ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", PLUGINS)
def test_claude_plugins(case: str, tmp_path: Path, bundled: real_clients.ClaudeList) -> None:
    repo = repository(tmp_path / "repo")
    plugin(tmp_path / "home", **PLUGINS[case])
    same_as_claude(tmp_path / "home", repo, bundled)


def test_claude_plugin_of_this_project_seen_from_below(
    tmp_path: Path, bundled: real_clients.ClaudeList
) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "below" / ".claude").mkdir(parents=True)
    plugin(tmp_path / "home", installed=[{"scope": "project", "projectPath": str(repo)}])
    same_as_claude(tmp_path / "home", repo / "below", bundled)
    write(repo / "below" / ".claude" / "settings.local.json", '{"enabledPlugins": {"plug@mk": false}}')
    same_as_claude(tmp_path / "home", repo / "below", bundled)


def test_claude_reads_plugins_of_a_local_marketplace_in_place(
    tmp_path: Path, bundled: real_clients.ClaudeList
) -> None:
    home, market, repo = tmp_path / "home", tmp_path / "market", repository(tmp_path / "repo")
    offer_list = {
        "name": "mk",
        "owner": {"name": "o"},
        "plugins": [{"name": "plug", "source": "./plug", "version": "1.0.0"}],
    }
    write(market / ".claude-plugin" / "marketplace.json", json.dumps(offer_list))
    write(market / "plug" / ".claude-plugin" / "plugin.json", '{"name": "plug"}')
    write(market / "plug" / "skills" / "in-place" / "SKILL.md", plain("x"))
    marketplaces = {"mk": {"source": {"source": "directory", "path": str(market)}}}
    settings = {"enabledPlugins": {"plug@mk": True}, "extraKnownMarketplaces": marketplaces}
    write(home / ".claude" / "settings.json", json.dumps(settings))
    same_as_claude(home, repo, bundled)


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("scope", "copy"), [("user", False), ("project", False), ("user", True)])
def test_a_shared_skill_is_in_every_clients_own_list(tmp_path: Path, scope: str, *, copy: bool) -> None:
    home, repo = tmp_path / "home", repository(tmp_path / "repo")
    born = (home if scope == "user" else repo) / ".claude" / "skills" / "shared-one"
    write(born / "SKILL.md", plain("shared-one"))
    env = {"HOME": str(home), "COUNSEL_HOME": str(tmp_path / "counsel"), **TRUST}

    share_skill("shared-one", scope=scope, copy=copy, project=repo, env=env)
    assert "shared-one" in real_clients.claude(home, repo).skills
    assert "shared-one" in {skill["name"] for skill in real_clients.codex(home, repo)["skills"]}
    assert "shared-one" in {skill.name for skill in real_clients.gemini(home, repo)}

    undo_sharing(env=env)
    assert "shared-one" not in {skill["name"] for skill in real_clients.codex(home, repo)["skills"]}
    assert [path.name for path in born.iterdir()] == ["SKILL.md"]
