"""Links and file names in the documentation are valid, and its prose is wrapped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("tests/**/README.md"),
        *ROOT.glob(".github/**/*.md"),
    ]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*/*.md"):
        if page.parent.name in {"use", "internals"}:
            assert f"({page.parent.name}/{page.name})" in index, page.name


WIDTH = 120


def too_wide(page: Path) -> list[int]:
    """The numbers of the lines that could be wrapped: tables, code and lines without a space are left alone."""
    in_code = False
    numbers = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        text = re.sub(r"^\s*([-*+>]|\d+\.)?\s*", "", line)
        if text.startswith("```"):
            in_code = not in_code
        elif len(line) > WIDTH and " " in text and not in_code and not text.startswith(("|", "#")):
            numbers.append(number)
    return numbers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_wraps_at_120_columns(page: Path) -> None:
    assert too_wide(page) == []


def test_a_long_line_of_prose_is_found_and_one_of_a_table_or_of_code_is_not(tmp_path: Path) -> None:
    long = "word " * 30
    page = tmp_path / "page.md"
    page.write_text(
        f"{long}\n\n| {long} |\n\n```\n{long}\n```\n\n- {long}\n- {'x' * 150}\n", encoding="utf-8"
    )
    assert too_wide(page) == [1, 9]


NOT_MODULES = {
    "src/counsel/mcp/tools/detach_job.py",
    "src/counsel/models/wires/acme.py",
    "conftest.py",
}  # examples; tests
NAMING_MODULES = [
    "architecture.md",
    *(
        f"internals/{name}.md"
        for name in ("interfaces", "extending", "wires", "store", "config-files", "performance")
    ),
]


@pytest.mark.parametrize("page", NAMING_MODULES)
def test_the_modules_that_a_page_names_exist(page: str) -> None:
    """`mcp/session.py` means that path below src/counsel; `session.py` after a package's name, a module of it."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = re.sub(r"^ *```python\n.*?```$", "", text, flags=re.DOTALL | re.MULTILINE)
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "src" / "counsel").rglob("*.py")]
    names = {name for name in re.findall(r"(?<![\w./-])[\w*/]+\.py\b", text) if "NAME" not in name}
    assert names
    for name in names - NOT_MODULES:
        pattern = re.compile(r"(.*/)?" + re.escape(name).replace(r"\*", r"[^/]+") + "$")
        assert (ROOT / name).exists() or any(pattern.fullmatch(module) for module in modules), name


def test_the_architecture_names_every_package_and_module_at_the_top() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    top = (ROOT / "src" / "counsel").iterdir()
    names = [f"{path.name}/" if path.is_dir() else path.name for path in top if not path.name.startswith("_")]
    assert [name for name in names if f"`{name}" not in text and name != "py.typed"] == []


def uneven_rows(page: Path) -> list[int]:
    """The numbers of table rows with more or fewer columns than their heading: a bar in code also splits a cell."""
    in_code, columns, numbers = False, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        in_code ^= text.startswith("```")
        bars = 0 if in_code or not text.startswith("|") else len(re.findall(r"(?<!\\)\|", text))
        if columns and bars not in {0, columns}:
            numbers.append(number)
        columns = bars and (columns or bars)
    return numbers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_a_table_have_the_columns_of_its_heading(page: Path) -> None:
    assert uneven_rows(page) == []


def test_a_bar_that_splits_a_cell_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| a | b |\n|---|---|\n| `x | y` | z |\n| `x \\| y` | z |\n\n| c |\n|---|\n| d |\n", encoding="utf-8"
    )
    assert uneven_rows(page) == [3]
