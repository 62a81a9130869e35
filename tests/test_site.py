"""The documentation builds as a site, with every page in its menu and no broken link."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_the_site_builds(copy: Path) -> None:
    process = build(copy)
    assert process.returncode == 0, process.stdout + process.stderr
    tutorial = (copy / "site" / "use" / "tutorial.html").read_text(encoding="utf-8")
    assert "Ask several at once" in tutorial
    assert not re.search(
        r'(?:src|href)="https?://(?!zensical\.org|squidfunk)[^"]*\.(?:js|css|woff2?)', tutorial
    )


@pytest.mark.slow
def test_a_broken_link_stops_the_build(copy: Path) -> None:
    with (copy / "docs" / "use" / "recipes.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](missing.md)\n")
    process = build(copy)
    assert process.returncode != 0
    assert "page does not exist" in process.stdout + process.stderr


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = re.findall(r"[\w/.-]+\.md", menu)
    assert len(pages) == len(set(pages))
    assert set(pages) == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}


@pytest.mark.parametrize(
    "picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.stem
)
def test_a_picture_loads_nothing_and_shows_no_path_of_the_machine_that_made_it(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert "@font-face" not in text
    assert not re.search(r"url\((?!#)|href=|/(?:tmp|home|root|work|Users)/", text)
