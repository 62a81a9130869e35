"""The versions of packages, read from the files that pip and uv write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from counsel.doctor import packages


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    for cached in (packages._headers, packages._folders):
        cached.cache_clear()
    yield
    for cached in (packages._headers, packages._folders):
        cached.cache_clear()


def install(folder: Path, name: str, version: str, text: str = "") -> None:
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(
        text or f"Name: {name}\nVersion: {version}\n\nVersion: of the description\n"
    )


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    folders = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "none"), *map(str, folders)])
    found: list[str] = []

    def distribution(name: str) -> metadata.Distribution:
        found.append(name)
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    yield folders
    assert set(found) <= {"missing", "broken"}, "what lies in a folder needs no slow search"


@pytest.mark.parametrize("name", ["some-thing", "Some_Thing", "some.thing", "some--thing"])
def test_a_package_is_found_by_any_spelling_in_the_first_folder(path: list[Path], name: str) -> None:
    install(path[1], "some_thing", "1.0")
    install(path[0], "Some.Thing", "2.0")
    assert packages.version(name) == "2.0"


def test_a_package_that_is_nowhere_or_unreadable_has_no_version(path: list[Path]) -> None:
    install(path[0], "broken", "1.0")
    (path[0] / "broken-1.0.dist-info" / "METADATA").unlink()
    assert packages.version("missing") is None
    assert packages.version("broken") is None


def test_only_what_counsel_always_needs_is_required(path: list[Path]) -> None:
    text = (
        "Name: counsel\nVersion: 1\nRequires-Dist: aiohttp>=3\nRequires-Dist: ruamel.yaml[x]\n"
        'Requires-Dist: psycopg; extra == "team"\nRequires-Dist: msgspec ; python_version > "3"\n'
        "\nRequires-Dist: described\n"
    )
    install(path[0], "counsel", "1", text)
    assert packages.required() == ["aiohttp", "ruamel.yaml", "msgspec"]
