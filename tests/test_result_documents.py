"""Every part of a result is read back unchanged from its document, and its text states the outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counsel.errors import NotFound, RateLimited
from counsel.results import review_text, verdict_text
from counsel.results.answers import Accepted, ChatResult, result_from_json
from counsel.results.consensus import ConsensusResult, ModelFailure, Totals
from counsel.results.conversation import AnswerDetails, HistoryMessage, QuestionDetails
from counsel.results.parts import AnswerNotice, Continuation, Source, labels
from counsel.results.review import ReviewResult
from counsel.results.verdict import JudgeVerdict, Minority, Refinement, Vote
from counsel.types import Usage

ERROR = NotFound("There is no such model.", hint="Look.").as_dict()
USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "estimated": True,
    "reasoning_tokens": 5,
    "cache_creation_input_tokens": 7,
    "cache_read_input_tokens": 9,
}
PLAIN = {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}


def answer_row(model: str, **fields: Any) -> dict[str, Any]:
    return {
        "model": model,
        "provider": "openai",
        "usage": PLAIN,
        "cost_usd": 0.25,
        "response_time_ms": 1200,
        "finish_reason": "stop",
        **fields,
    }


RICH = answer_row(
    "gpt-5",
    usage=USAGE,
    answered_by="gpt-5-2026",
    settings_left_out=["temperature"],
    notices=[{"kind": "source", "text": "X", "url": "https://x"}],
    session="s1",
    cached=True,
    tool_calls=[{"server": "files", "tool": "read", "ms": 12, "ok": True}],
    passed_over=[
        {"model": "o3", "code": "TIMEOUT", "error": "It took too long.", "usage": PLAIN, "cost_usd": 0.5},
        {"model": "o4", "code": "RATE_LIMITED", "error": "Busy."},
    ],
    files=[
        {"name": "a.py", "size": 12, "modified": "2026", "lines": 3, "range": "1:2", "encoding": "latin-1"},
        {"name": "b.pdf", "size": 40, "pages": 2, "unchanged_since_turn": 1},
    ],
    warnings=["It was long."],
)  # fmt: skip
CONTINUATION = {
    "id": "conv_1", "provider": "openai", "model": "gpt-5", "tag": "t1", "messageCount": 4, "status": "new"
}  # fmt: skip
CHAT: dict[str, Any] = {
    "content": "Three.",
    "continuation": CONTINUATION,
    "metadata": RICH,
    "job_id": "job_1",
    "title": "A title",
    "export": "/folder",
    "final_summary": "In short.",
    "parts": [{"type": "text", "text": "Three."}],
    "stopped_by": "END",
}
VERDICT: dict[str, Any] = {
    "judge": "opus",
    "based_on": "refined",
    "consensus": ["It is\nblue."],
    "contradictions": [
        {
            "topic": "Size.",
            "positions": [
                {"models": ["gpt-5", "o3"], "position": "large."},
                {"models": ["sonnet"], "position": "small"},
            ],
        }
    ],
    "partial_coverage": [{"point": "its age", "models": ["o3"]}],
    "unique_insights": [{"model": "gpt-5", "insight": "It floats."}],
    "blind_spots": ["its price"],
    "failed_models": ["haiku"],
    "recommendation": "Take the blue one.",
    "choice": "blue",
    "metadata": answer_row("opus"),
}
VOTE: dict[str, Any] = {
    "choices": ["blue", "red"],
    "counts": {"blue": 2, "red": 1},
    "majority": "blue",
    "tied": [],
    "agreement": 0.667,
    "votes": [
        {"model": "gpt-5", "choice": "blue", "reason": "a"},
        {"model": "o3", "choice": "blue", "reason": "b"},
        {"model": "sonnet", "choice": "red", "reason": "c"},
    ],
    "minority": [{"choice": "red", "models": ["sonnet", "flash"], "reasons": ["It is warm.", "It is near."]}],
    "failed": [{"model": "haiku", "code": "NO_VOTE", "error": "It named none."}],
}


def first(model: str, text: str, **fields: Any) -> dict[str, Any]:
    more = {"input_tokens": 30, "output_tokens": 4, "response_time": 1200}
    return {
        "model": model,
        "status": "success",
        "response": text,
        **fields,
        "metadata": {**answer_row(model), **more},
    }


CONSENSUS: dict[str, Any] = {
    "status": "consensus_partial",
    "models_consulted": 4,
    "successful_initial_responses": 3,
    "failed_responses": 1,
    "refined_responses": 1,
    "phases": {
        "initial": [first("gpt-5", "Two.", choice="red"), first("o3", "Four."), first("sonnet", "Five.")],
        "refined": [
            {
                "model": "gpt-5",
                "status": "success",
                "initial_response": "Two.",
                "refined_response": "Three.",
                "choice": "blue",
                "changed": True,
                "round": 3,
                "metadata": {
                    **answer_row("gpt-5", response_time_ms=800),
                    "total_response_time": 2000,
                    "total_input_tokens": 60,
                    "total_output_tokens": 8,
                },
            },
            {
                "model": "o3",
                "status": "failed",
                "initial_response": "Four.",
                "refined_response": None,
                "error": ERROR,
            },
        ],
        "failed": [
            {**ERROR, "model": "haiku", "status": "failed", "phase": "initial"},
            {**ERROR, "model": "o3", "status": "failed", "phase": "refined"},
        ],
        "rounds": [
            {
                "round": 2,
                "answers": [{"model": "gpt-5", "response": "Maybe.", "choice": "blue", "changed": False}],
            }
        ],
        "verdict": VERDICT,
    },
    "vote": VOTE,
    "refinement": {"mode": "disagreement", "rounds": 3, "ended": "agreement"},
    "continuation": {"id": "consensus_1"},
    "settings": {
        "enable_cross_feedback": False,
        "temperature": 0.2,
        "models_requested": ["gpt-5", "o3", "sonnet", "haiku"],
    },
    "metadata": {"usage": PLAIN, "cost_usd": 0.5, "cost_complete": False, "warnings": ["One price is not known."]},
    "job_id": "job_1",
    "title": "Colours",
    "export": "/folder",
    "final_summary": "In short.",
}  # fmt: skip


def test_an_answer_is_read_back() -> None:
    result = ChatResult.from_json(CHAT)
    assert replace(result, document=None).to_json() == CHAT
    assert result.to_row() == CHAT
    assert result.metadata.passed_over[0].spent == Usage(input=30, output=4, cost_usd=0.5)
    assert (result.metadata.usage.total, result.metadata.usage.cost_usd) == (120, 0.25)
    assert result.metadata.notices[0].url == "https://x"
    assert [(source.first, source.last) for source in result.metadata.files] == [(1, 2), (None, None)]
    least: dict[str, Any] = {"content": "", "continuation": {"id": ""}, "metadata": {}, "job_id": ""}
    empty = replace(ChatResult.from_json(least), document=None).to_json()
    assert set(empty) == set(least)
    assert empty["metadata"]["cost_usd"] is None


def test_which_kind_of_result_a_document_is() -> None:
    assert isinstance(result_from_json(CHAT), ChatResult)
    assert isinstance(result_from_json(CONSENSUS), ConsensusResult)
    assert isinstance(result_from_json({"findings": []}), ReviewResult)


def test_a_consensus_is_read_back() -> None:
    result = replace(ConsensusResult.from_json(CONSENSUS), document=None)
    document: Any = result.to_json()
    assert document.pop("content") == result.content
    assert document == CONSENSUS
    assert result.refined_count == 1
    assert result.answers == {"gpt-5": "Three.", "o3": "Four.", "sonnet": "Five."}


@pytest.mark.parametrize(
    ("before", "after", "total"), [(1200, 800, 2000), (None, 800, 800), (1200, None, 1200), (0, 0, 0)]
)
def test_a_time_that_is_not_known_adds_nothing_to_the_sum_of_both_answers(
    before: int | None, after: int | None, total: int
) -> None:
    refined = ConsensusResult.from_json(CONSENSUS).refined[0]
    assert refined.metadata is not None
    first_answer = replace(refined.first, metadata=replace(refined.first.metadata, response_time_ms=before))
    answer = replace(refined, first=first_answer, metadata=replace(refined.metadata, response_time_ms=after))
    metadata: Any = answer.to_json()["metadata"]
    assert metadata["total_response_time"] == total


def test_a_consensus_is_stored_without_repetition_and_shown_with_it() -> None:
    result = replace(ConsensusResult.from_json(CONSENSUS), document=None)
    row: Any = result.to_row()
    assert "content" not in row
    assert [entry.get("initial_response") for entry in row["phases"]["refined"]] == [None, None]
    document: Any = ConsensusResult.from_json(row).to_json()
    assert document == {**CONSENSUS, "content": result.content}
    assert ConsensusResult.from_json(document).to_json() is document


def test_a_consensus_as_text_begins_with_what_failed_and_ends_with_the_answers() -> None:
    text = ConsensusResult.from_json(CONSENSUS).content
    heads = [line for line in text.splitlines() if line.startswith(("⚠", "##"))]
    assert heads == [
        "⚠ haiku failed in the first round: [NOT_FOUND] There is no such model. Look.",
        "⚠ o3 failed in the refinement: [NOT_FOUND] There is no such model. Look.",
        "## Recommendation",
        "## Agreement",
        "## Dissent",
        "## gpt-5",
        "## o3",
        "## sonnet",
    ]
    assert text.endswith("## gpt-5\n\nThree.\n\n## o3\n\nFour.\n\n## sonnet\n\nFive.")


@pytest.mark.parametrize(("model_count", "is_named"), [(1, False), (2, True)])
def test_one_answer_of_several_is_no_consensus(model_count: int, is_named: bool) -> None:
    phases = {"initial": [first("gpt-5", "Two.")]}
    result = ConsensusResult.from_json({"models_consulted": model_count, "phases": phases})
    assert ("its opinion, not a consensus" in result.content) == is_named


def test_where_a_release_before_said_less() -> None:
    result = ConsensusResult.from_json(
        {"phases": {"rounds": [{"answers": [{}]}], "refined": [{"model": "a"}]}}
    )
    assert result.status == "consensus_complete"
    assert (result.verdict, result.vote, result.refinement) == (None, None, None)
    assert (result.rounds[0].round, result.rounds[0].answers[0].changed) == (2, None)
    assert result.refined[0].round == 2
    assert result.settings.enable_cross_feedback
    assert result.metadata.cost_complete
    assert Refinement.from_json({}).to_json() == {"mode": "always", "rounds": 1, "ended": "limit"}
    assert JudgeVerdict.from_json({}).based_on == "initial"
    assert ModelFailure.from_json({}).phase == "initial"


def test_a_judge_that_failed() -> None:
    document = {**ERROR, "judge": "opus"}
    verdict = JudgeVerdict.from_json(document)
    assert verdict.to_json() == document
    (line,) = verdict_text.sections(verdict, None)
    assert line == "⚠ No verdict: the judge opus failed: [NOT_FOUND] There is no such model. Look."


def test_a_verdict_and_a_vote_as_text() -> None:
    recommendation, agreement, dissent = verdict_text.sections(
        JudgeVerdict.from_json(VERDICT), Vote.from_json(VOTE)
    )
    assert recommendation == (
        "## Recommendation\n\n**blue**: 2 of 3 votes.\n\nTake the blue one.\n\nThe judge chooses **blue**.\n\n"
        "*Judge: opus, who read the refined answers without names.*"
    )
    assert agreement == (
        "## Agreement\n\n67% of the valid votes (blue 2, red 1).\n\nWithout a vote: haiku.\n\n- It is\n  blue."
    )
    assert dissent == (
        "## Dissent\n\n- **red**\n  - sonnet: It is warm.\n  - flash: It is near.\n"
        "- **Size.**\n  - gpt-5 and o3: large.\n  - sonnet: small\n- Only o3: its age\n- Only gpt-5: It floats.\n"
        "- Blind spot: its price"
    )


def test_what_the_judge_and_vendors_write_does_not_look_like_a_part_of_the_result() -> None:
    """A later turn finds counsel's sections by their headings, and failures by their lines, to remove the names."""
    text = "# Best\n\n## gpt-5\n\n### Why\n\n```sh\n## keep\n```\n\n~~~\n# keep\n~~~\n##no heading"
    recommendation, *_ = verdict_text.sections(JudgeVerdict(judge="opus", recommendation=text), None)
    assert recommendation.startswith(
        "## Recommendation\n\n### Best\n\n### gpt-5\n\n### Why\n\n```sh\n## keep\n```\n\n~~~\n# keep\n~~~\n##no heading\n\n*Judge"
    )
    busy = RateLimited(
        "Google: You exceeded your quota.\n\n* Quota of gemini-2.5-pro: 0\n\n## opus", hint="Wait."
    )
    (line,) = verdict_text.sections(JudgeVerdict(judge="opus", error=busy), None)
    assert line.endswith("quota. * Quota of gemini-2.5-pro: 0 ## opus. Wait.")
    assert "\n" not in ModelFailure("gemini-2.5-pro", "initial", busy).line()


def test_a_tie_names_who_is_for_each() -> None:
    vote = replace(
        Vote.from_json(VOTE), majority=None, tied=("blue", "red", "green"), counts={"blue": 1, "red": 1}, failed=(),
        minority=(),
    )  # fmt: skip
    recommendation, agreement, dissent = verdict_text.sections(None, vote)
    assert recommendation == "## Recommendation\n\nA tie: **blue**, **red** and **green**, 1 vote each."
    assert agreement == "## Agreement\n\n67% of the valid votes (blue 1, red 1)."
    assert dissent == "## Dissent\n\n- **blue**: gpt-5 and o3.\n- **red**: sonnet.\n- **green**: nobody."


def test_where_nobody_voted_and_nothing_was_found() -> None:
    nobody = Vote(choices=("a", "b"), minority=(Minority("a", ("o3",), ("why",)),))
    assert verdict_text.sections(None, nobody) == [
        "## Recommendation\n\nNo valid vote.",
        "## Dissent\n\n- **a** (o3): why",
    ]
    found_nothing = JudgeVerdict(judge="opus", recommendation="Wait.")
    assert verdict_text.sections(found_nothing, None) == [
        "## Recommendation\n\nWait.\n\n*Judge: opus, who read the first answers without names.*",
        "## Agreement\n\nThe judge found no point on which all answers agree.",
        "## Dissent\n\nThe judge found no contradictions.",
    ]
    assert verdict_text.sections(None, None) == []


def test_totals_of_several_calls() -> None:
    calls = [Usage(input=1, output=2, cost_usd=0.1), Usage(input=3, output=4, cost_usd=0.2, estimated=True)]
    total = Totals.of(calls)
    assert (total.usage.input, total.usage.output, total.usage.estimated) == (4, 6, True)
    assert (total.cost_usd, total.usage.cost_usd, total.cost_complete) == (0.3, 0.3, True)
    some = Totals.of([*calls[:1], Usage(input=1)])
    assert (some.cost_usd, some.cost_complete, some.usage.estimated) == (0.1, False, False)
    assert Totals.of([Usage(input=1)]).cost_usd is None
    assert Totals.of([]).cost_complete


def test_names_of_members() -> None:
    assert labels(["gpt-5", "o3", "gpt-5", "gpt-5"]) == ["gpt-5", "o3", "gpt-5#2", "gpt-5#3"]


def test_a_continuation_names_a_model_with_its_provider_or_neither() -> None:
    assert Continuation.from_json(CONTINUATION).to_json() == CONTINUATION
    assert Continuation(id="c", provider="openai").to_json() == {"id": "c"}
    assert Continuation(id="c", model="codex").to_json() == {"id": "c", "provider": None, "model": "codex"}
    assert Continuation(id="c", message_count=0, tag="").to_json() == {"id": "c", "messageCount": 0}


def test_a_notice_that_cuts_an_answer() -> None:
    notice = {"kind": "warning", "text": "It was cut.", "incomplete": True}
    assert AnswerNotice.from_json(notice).to_json() == notice
    assert AnswerNotice.from_json(notice).is_incomplete
    assert not AnswerNotice("warning", "w").is_incomplete
    assert AnswerNotice("warning", "w").url == ""


def test_a_file_of_which_nothing_else_is_known() -> None:
    assert Source.from_json({"name": "a"}).to_json() == {"name": "a", "size": 0}
    assert Source.from_json({"name": "a"}).encoding == "utf-8"
    assert Source(name="a", size=1, lines=0, first=0, last=0).to_json()["range"] == "0:0"


def test_a_background_call_keeps_its_note() -> None:
    accepted = Accepted(
        content="c", continuation=Continuation(id="x"), job_id="j", models=("a", "b"), note="n"
    )
    again = replace(Accepted.from_json(accepted.to_json()), document=None)
    assert again.to_json() == accepted.to_json()


# ── conversations ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "metadata",
    [
        RICH,
        {**RICH, "has_thinking": True},
        {"partial": True, "status": "cancelled"},
        {"partial": True, "status": "failed", "answered": ["a"], "unanswered": []},
        {"usage": PLAIN, "cost_usd": 0.5, "cost_complete": True, "models": [answer_row("gpt-5"), answer_row("o3")]},
        {**answer_row("gpt-5"), "partial": True, "status": "cancelled", "cost_complete": False},
    ],
)  # fmt: skip
def test_what_is_stored_beside_an_answer_is_read_back(metadata: dict[str, Any]) -> None:
    document: dict[str, object] = {
        "role": "assistant",
        "content": "Three.",
        "at": "2026",
        "metadata": metadata,
    }
    message = HistoryMessage.from_json(document)
    assert isinstance(message.details, AnswerDetails)
    assert message.to_json() == document
    assert replace(message.details, document=None).to_json() == metadata
    assert message.details.model == metadata.get("model")
    totals = message.details.spent
    assert (totals is None) == ("usage" not in metadata)
    assert isinstance(totals, Totals) == ("cost_complete" in metadata)


def test_what_is_stored_beside_a_question_is_read_back() -> None:
    metadata = {
        "sources": [{"name": "a.py", "size": 12}],
        "settings": {"temperature": 0.2},
        "files_sent": {"a.py": "hash"},
    }
    document: dict[str, object] = {
        "role": "user",
        "content": "Why?",
        "at": "2026",
        "images": 2,
        "metadata": metadata,
    }
    message = HistoryMessage.from_json(document)
    assert isinstance(message.details, QuestionDetails)
    assert message.to_json() == document
    assert replace(message.details, document=None).to_json() == metadata
    assert HistoryMessage(role="user", content="c", at="a").to_json() == {
        "role": "user", "content": "c", "at": "a"
    }  # fmt: skip


# ── reviews ──────────────────────────────────────────────────────────────────────────────────────────


def finding(**fields: Any) -> dict[str, Any]:
    makers = [{"model": "gpt-5", "severity": "high", "title": "t", "reason": "r", "suggestion": "s"}]
    document = {
        "id": "f1", "file": "a.py", "line": 3, "end_line": 3, "severity": "high", "status": "agreed",
        "location": "diff", "title": "It leaks.", "reason": "Nobody closes it.", "suggestion": "Close it.",
        "made_by": makers, "check": None, **fields,
    }  # fmt: skip
    return {**document, "found_by": [maker["model"] for maker in document["made_by"]]}


REVIEW: dict[str, Any] = {
    "status": "review_partial",
    "about": "main…topic",
    "files": ["a.py", "b.py"],
    "left_out": [{"file": "x.lock", "reason": "it is a lock file"}],
    "findings": [
        finding(),
        finding(
            id="f2", line=None, status="disputed", location="outside", reason="It leaks.", suggestion="",
            made_by=[
                {"model": "gpt-5", "severity": "high", "title": "t", "reason": "r", "suggestion": ""},
                {"model": "o3", "severity": "low", "title": "t", "reason": "r", "suggestion": ""},
            ],
            check={"model": "opus", "verdict": "disputed", "reason": "It is closed."},
        ),
        finding(id="f3", location="missing", check={"model": "opus", "verdict": "unsure", "reason": ""}),
    ],
    "reviewers": [
        {"model": "gpt-5", "status": "reviewed", "findings": 2, "checked": 1, "context_lines": None, "left_out": []},
        {"model": "o3", "status": "check_failed", "findings": 1, "checked": 0, "context_lines": 3, "left_out": []},
        {"model": "opus", "status": "reviewed", "findings": 0, "checked": 0, "context_lines": 1, "left_out": ["b.py", "c.py"]},
    ],
    "failed": [{**ERROR, "model": "haiku", "status": "failed", "phase": "check"}],
    "continuation": {"id": "review_1"},
    "metadata": {"usage": PLAIN, "cost_usd": None, "cost_complete": True},
    "job_id": "job_1",
    "title": "A review",
    "export": "/folder",
    "final_summary": "In short.",
}  # fmt: skip


def test_a_review_is_read_back() -> None:
    result = ReviewResult.from_json(REVIEW)
    document = {**REVIEW, "content": result.content}
    assert result.to_json() == document
    assert ReviewResult.from_json(document).to_json() is not None
    fresh = replace(result, document=None)
    assert fresh.to_json() == document
    assert fresh.to_row() == REVIEW
    second = ReviewResult.from_json({**REVIEW, "content": "As it was shown."})
    assert second.to_json()["content"] == "As it was shown."


def test_a_review_as_text() -> None:
    assert (
        review_text.text(ReviewResult.from_json(REVIEW))
        == """\
3 findings (1 disputed) in 2 files: main…topic. Reviewed by gpt-5, o3, opus.

⚠ haiku failed in the check of findings: [NOT_FOUND] There is no such model.
Look.

HIGH  a.py:3  (agreed)
  It leaks.
  Nobody closes it.
  Fix: Close it.
  Found by gpt-5.

HIGH  a.py  (disputed, outside the change)
  It leaks.
  Found by gpt-5, o3 (gpt-5: high, o3: low).
  opus checked it: disputed. It is closed.

HIGH  a.py:3  (agreed, no such file or line)
  It leaks.
  Nobody closes it.
  Fix: Close it.
  Found by gpt-5.
  opus checked it: unsure.

Not reviewed: x.lock: it is a lock file.
o3 was sent only 3 lines around each change.
Not sent to opus, for lack of space: b.py, c.py."""
    )


def test_a_review_without_findings_and_with_long_words() -> None:
    result = ReviewResult.from_json(
        {"files": ["a"], "about": "x/" * 50 + "y", "reviewers": [{"model": "o3"}]}
    )
    assert review_text.text(result, 60) == f"No findings in 1 file:\n{'x/' * 50}y.\nReviewed by o3."
