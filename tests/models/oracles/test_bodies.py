"""What we send is what pydantic-ai sends for the same request, field by field, for every model and setting."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

LISTED = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())["body"]


@pytest.mark.parametrize("wire", ["openai_responses", "openai_chat", "anthropic", "gemini"])
async def test_every_model_and_setting(asking: ModuleType, wire: str) -> None:
    async with asking.both_ways() as both:
        unlisted_differences, places = await compare(asking, both, wire)
    lines = [
        f"{where} ({len(cases)} times, e.g. {cases[0]})" for where, cases in unlisted_differences.items()
    ]
    assert not unlisted_differences, "\n".join(lines)
    stale = [line for place, line in enumerate(LISTED) if place not in places and line["wire"] == wire]
    assert not stale, "these differences no longer exist"


async def compare(asking: ModuleType, both: Any, wire: str) -> tuple[dict[str, list[str]], set[int]]:
    unlisted_differences: dict[str, list[str]] = defaultdict(list)
    places: set[int] = set()
    for question in asking.questions():
        if question.provider.wire != wire:
            continue
        ours, theirs = await both.ours(question), await both.theirs(question)
        assert ours.path == theirs.path
        for path, our_value, theirs_value in asking.differences(ours.body, theirs.body):
            place = index_of_entry(question, path)
            if place is None:
                unlisted_differences[f"{question.provider.name} {path}"].append(
                    f"{question.name}: {our_value} / {theirs_value}"
                )
            else:
                places.add(place)
    return unlisted_differences, places


def index_of_entry(question: Any, path: str) -> int | None:
    for place, line in enumerate(LISTED):
        providers = line.get("providers", [question.provider.name])
        if (line["wire"], line["path"]) == (
            question.provider.wire,
            path,
        ) and question.provider.name in providers:
            return place
    return None
