"""Scripted members and judges of a consensus."""

from __future__ import annotations

import json
from typing import Any

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.requests import ConsensusRequest
from fake import FakeAPI

MEMBERS = ("gpt-5", "sonnet", "gemini-2.5-flash")
JUDGE = "deepseek-v3"
WIRE = {"gpt-5": "gpt-5", "sonnet": "claude", "gemini-2.5-flash": "gemini", JUDGE: "deepseek"}
NAMES = ("gpt", "openai", "sonnet", "claude", "anthropic", "gemini", "google", "deepseek")
JUDGING = "Compare them."
REFINING = "refined answer"


async def hold(engine: Engine, caller: Caller, models: Any = MEMBERS, **fields: Any) -> Any:
    job = await engine.submit(ConsensusRequest(prompt="Tabs or spaces?", models=models, **fields), caller)
    return (await engine.wait(job)).to_json()


def verdict(**fields: Any) -> str:
    nothing: dict[str, Any] = {
        "consensus": [],
        "contradictions": [],
        "partial_coverage": [],
        "unique_insights": [],
        "blind_spots": [],
        "recommendation": "Use tabs.",
    }
    return json.dumps(nothing | fields)


CONTRADICTION = {
    "topic": "Which?",
    "positions": [{"answers": ["A", "B"], "position": "tabs"}, {"answers": ["C"], "position": "spaces"}],
}


def picks(choice: str, reason: str = "Because.") -> str:
    return json.dumps({"reason": reason, "choice": choice})


def say(fake: FakeAPI, texts: dict[str, str], *, refined: str | None = None) -> None:
    """Script each model's first answer, and one refined answer for all."""
    if refined is not None:
        fake.script(text=refined, contains=REFINING, times=None)
    for model, text in texts.items():
        fake.script(text=text, model=WIRE[model], times=None)


def judged(fake: FakeAPI, text: str, times: int | None = None) -> None:
    fake.script(text=text, contains=JUDGING, times=times)
