"""Sample skills as each agent lists them: every text and place, with plugins and settings.

The expected lists are tests/golden/skills.txt and skill_settings.txt; `test_real_clients.py` compares the same folders
with the real clients' own lists. `COUNSEL_GOLDEN=write pytest …` rewrites them: only for an intended change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from counsel.agents.skill_format import Skill
from counsel.skills.discover import list_skills
from skills import sample_skills, scenarios
from skills.sample_skills import plain, write
from support.user import User

GOLDEN = Path(__file__).parent.parent / "golden"
WRITE = os.environ.get("COUNSEL_GOLDEN") == "write"  # a test's user has an environment of their own
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"


def listed_lines(agent: str, top: Path, home: Path, cwd: Path, **env: str) -> list[str]:
    listing = list_skills(agents=[agent], project=cwd, env={"HOME": str(home), TRUST: "true", **env})
    skills = [skill for skill in listing.skills if skill.scope != "system"]  # these come with the program
    problems = [_problem(problem, top) for problem in listing.problems]
    return [*problems, *sorted(lines(skill, top) for skill in skills)]


def _problem(text: str, top: Path) -> str:
    """The problem without the parser's message, which differs between versions of Python."""
    return f"problem: {re.sub(r'(?<=cannot be read) [(].*[)]', '', text.replace(str(top), 'TOP'))}"


def lines(skill: Skill, top: Path) -> str:
    """A skill as lines of the golden file: its path, its state, its notes."""
    flags = [skill.scope, skill.state, *(["for people alone"] if not skill.model else ())]
    plugin = f" of {skill.plugin} {skill.version}" if skill.plugin else ""
    parts = [
        str(skill.path.relative_to(top)) + plugin,
        f"{' '.join(flags)}: {skill.command or 'no command'} = {skill.name!r} {skill.description[:60]!r}",
    ]
    if skill.state == "refused":
        parts += [note.message.replace(str(top), "TOP") for note in skill.notes]
    elif skill.notes:
        parts.append(", ".join(note.code for note in skill.notes))
    return "\n    ".join(parts)


def compare(file: str, parts: list[str]) -> None:
    text = "\n".join(parts) + "\n"
    if WRITE:
        (GOLDEN / file).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / file).read_text(encoding="utf-8")


def test_every_text_and_shape(user: User, tmp_path: Path) -> None:
    for folder in (".claude", ".agents"):
        sample_skills.texts(user.home / folder / "skills")
        sample_skills.shapes(user.project / folder / "skills", tmp_path / f"outside{folder}")
    for folder in (".codex", ".gemini"):
        sample_skills.shapes(user.home / folder / "skills", tmp_path / f"outside-home{folder}")
    parts = []
    for agent in ("claude", "codex", "gemini", "cursor"):
        parts += [f"# {agent}", *listed_lines(agent, tmp_path, user.home, user.project)]
    compare("skills.txt", parts)


def test_every_place_plugin_and_setting(user: User, tmp_path: Path) -> None:
    parts = []
    for number, scenario in enumerate((claude, codex, gemini, cursor, claude_plugins, codex_plugins)):
        for name, skills in scenario(tmp_path / str(number)):
            parts += [f"# {scenario.__name__}: {name}", *skills]
    compare("skill_settings.txt", parts)


Scenario = Iterator[tuple[str, list[str]]]


def nested(top: Path) -> tuple[Path, Path, Path]:
    (top / "up" / "repo" / ".git").mkdir(parents=True)
    return scenarios.nested(top)


def claude(top: Path) -> Scenario:
    home, repo, cwd = nested(top)
    scenarios.claude_overrides(home, repo, cwd)
    for name, folder in {"two below": cwd, "repository": repo, "home": home}.items():
        yield name, listed_lines("claude", top, home, folder)
    yield "moved", listed_lines("claude", top, home, cwd, CLAUDE_CONFIG_DIR=str(repo / ".claude"))


def codex(top: Path) -> Scenario:
    home, repo, cwd = nested(top)
    yield "without a repository", listed_lines("codex", top, top / "nobody", top / "up")
    scenarios.codex_layers(home, repo)
    for name, folder in {"two below": cwd, "repository": repo, "home": home}.items():
        yield name, listed_lines("codex", top, home, folder)
    write(home / ".codex" / "config.toml", 'project_root_markers = [".hg"]\n')
    (repo / "a" / ".hg").mkdir()
    yield "another root", listed_lines("codex", top, home, cwd)
    yield "moved", listed_lines("codex", top, home, cwd, CODEX_HOME=str(repo / ".codex"))
    write(home / ".codex" / "config.toml", "[[[")
    yield "broken settings", listed_lines("codex", top, home, cwd)


def gemini(top: Path) -> Scenario:
    home, repo, cwd = nested(top)
    scenarios.gemini_settings(home)
    yield "trusted", listed_lines("gemini", top, home, cwd)
    yield "never asked", listed_lines("gemini", top, home, cwd, **{TRUST: ""})
    yield "restricted", listed_lines("gemini", top, home, cwd, GEMINI_RESTRICTED_MODE="true")
    yield "moved", listed_lines("gemini", top, home, cwd, GEMINI_CLI_HOME=str(repo))
    rules = {str(repo): "TRUST_FOLDER", str(cwd): "DO_NOT_TRUST"}
    write(home / ".gemini" / "trustedFolders.json", json.dumps(rules))
    for name, folder in {"two below": cwd, "between": repo / "a", "home": home}.items():
        yield f"by its list, {name}", listed_lines("gemini", top, home, folder, **{TRUST: ""})
    write(top / "rules.json", json.dumps({str(cwd): "TRUST_PARENT"}))
    variables = {TRUST: "", "GEMINI_CLI_TRUSTED_FOLDERS_PATH": str(top / "rules.json")}
    yield "by another list, between", listed_lines("gemini", top, home, repo / "a", **variables)
    yield "by another list, above", listed_lines("gemini", top, home, repo, **variables)
    switches = {
        "none": {"skills": {"enabled": False}},
        "no trust": {"security": {"folderTrust": {"enabled": False}}},
    }
    for name, settings in switches.items():
        write(home / ".gemini" / "settings.json", json.dumps(settings))
        yield name, listed_lines("gemini", top, home, cwd, **{TRUST: ""})
    write(home / ".gemini" / "settings.json", "{ // half")
    yield "broken settings", listed_lines("gemini", top, home, cwd)


def cursor(top: Path) -> Scenario:
    home, repo, cwd = nested(top)
    for place in (home, repo, cwd):
        write(place / ".cursor" / "skills" / "same" / "SKILL.md", plain("same", f"{place.name} .cursor"))
        write(
            place / ".cursor" / "skills" / f"{place.name}.cursor" / "SKILL.md", plain(f"{place.name}.cursor")
        )
    for name, folder in {"two below": cwd, "repository": repo, "home": home}.items():
        yield name, listed_lines("cursor", top, home, folder)


def claude_plugins(top: Path) -> Scenario:
    for number, (name, changes) in enumerate(scenarios.PLUGINS.items()):
        home, repo = top / str(number) / "home", top / str(number) / "repo"
        (repo / ".git").mkdir(parents=True)
        scenarios.plugin(home, **changes)
        yield name, listed_lines("claude", top, home, repo)


def codex_plugins(top: Path) -> Scenario:
    for number, (name, (enabled, versions)) in enumerate(scenarios.CODEX_PLUGINS.items()):
        home, repo = top / str(number) / "home", top / str(number) / "repo"
        (repo / ".git").mkdir(parents=True)
        scenarios.codex_plugin(home, enabled, versions)
        yield name, listed_lines("codex", top, home, repo)
