"""Mutants without a visible effect, each with its reason (`equivalent.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from tools.mutants.mutations import Mutant

LIST = Path(__file__).parent / "equivalent.toml"
Key = tuple[str, str, str, str]


def known() -> dict[Key, str]:
    entries = tomllib.loads(LIST.read_text()).get("equivalent", [])
    return {(e["file"], e["function"], e["original"], e["mutated"]): e["reason"] for e in entries}


def stale(every: Iterable[Mutant], files: set[str]) -> list[Key]:
    """Entries that match no mutant any more, because their code has changed."""
    keys = {mutant.key for mutant in every}
    return [key for key in known() if key[0] in files and key not in keys]
