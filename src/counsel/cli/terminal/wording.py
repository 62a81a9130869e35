"""The engine's hints in the command line's words. Agents read the same errors with the names of their tools' arguments.

Whole phrases are replaced, never single words: a user's file or model may have the name of an argument.
`tests/cli/test_wording.py` finds phrases that are missing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from counsel.lazy_dataclass import replace

if TYPE_CHECKING:
    from counsel.errors import CounselError
    from counsel.results import ConsensusResult, ReviewResult

Several = TypeVar("Several", "ConsensusResult", "ReviewResult")
OPTIONS = {
    "use_websearch": "--web",
    "reasoning_effort": "--effort",
    "media_resolution": "--media-resolution",
    "temperature": "--temperature",
    "verbosity": "--verbosity",
}
_PHRASES = (
    ("check_status without an id (or `counsel jobs`) lists the newest", "`counsel jobs` lists the newest"),
    ("Name the one that you mean by its job_id.", "Name the job that you mean by its own id."),
    (", or leave continuation_id out", ", or leave -c out"),
    ("leave continuation_id out to start afresh", "without -c a new one starts"),
    ("Start a new one (leave continuation_id out)", "Start a new one (without -c)"),
    ("max_cost_usd of ", "--max-cost of "),
    ("and max_cost_usd applies", "and --max-cost applies"),
    ("Raise max_cost_usd,", "Raise --max-cost,"),
    ("tokens by max_cost_usd.", "tokens by --max-cost."),
    ("docs/use/tools.md lists the arguments.", "`--help` lists the options."),
    ("` (or cancel_job) lets the conversation", "` lets the conversation"),
)


def in_cli_words(text: str) -> str:
    for phrase, words in _PHRASES:
        text = text.replace(phrase, words)
    return text


def with_failures_in_cli_words(result: Several) -> Several:
    """The result with its failures in the command line's words; the models' answers stay unchanged."""
    from counsel.results import ConsensusResult

    failed = tuple(replace(failure, error=_in_cli_words(failure.error)) for failure in result.failed)
    if not isinstance(result, ConsensusResult):
        return replace(result, failed=failed)
    verdict = result.verdict
    if verdict and verdict.error:
        verdict = replace(verdict, error=_in_cli_words(verdict.error))
    return replace(result, failed=failed, verdict=verdict)


def _in_cli_words(error: CounselError) -> CounselError:
    copy = error.copy()
    copy.message = in_cli_words(error.message)
    copy.hint = in_cli_words(error.hint) if error.hint else None
    return copy
