"""docs/internals/requirements.md: every requirement has an id and a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in (TESTS.parent / "docs" / "internals" / "requirements.md")
    .read_text(encoding="utf-8")
    .splitlines()
    if re.match(r"\| [A-Z]+-\w+ \|", line)
]


def test_every_requirement_has_an_id_of_its_own_and_a_test() -> None:
    ids = [row[0] for row in ROWS]
    assert len(ids) > 40
    assert len(ids) == len(set(ids))
    assert [row[0] for row in ROWS if len(row) != 3 or "::" not in row[2]] == []


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for _, _, tests in ROWS:
        for path, name in re.findall(r"`([\w/.]+)::(\w+)`", tests):
            if not exists(path, name):
                missing.append(f"{path}::{name}")
    assert missing == []


def test_every_test_that_the_threat_model_names_exists() -> None:
    text = (TESTS.parent / "docs" / "use" / "security.md").read_text(encoding="utf-8")
    references = re.findall(r"`([\w/.]+)::(\w+)`", text)
    assert len(references) > 30
    assert [f"{path}::{name}" for path, name in references if not exists(path, name)] == []


def exists(path: str, name: str) -> bool:
    file = TESTS / path
    return file.exists() and bool(re.search(rf"def {name}\b", file.read_text(encoding="utf-8")))
