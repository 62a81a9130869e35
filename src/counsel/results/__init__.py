"""What the engine answers, as typed values: every interface reads the fields and calls `to_json` once, at its edge.

`from_json` reads what another process wrote, over the daemon's socket or in the database, and keeps the document:
`to_json` gives it back as it was, with fields that only another release knows. Who changes such a value with `replace`
sets `document` to None.
"""

from __future__ import annotations

from counsel.results.answers import (
    Accepted,
    ChatResult,
    ConsensusResult,
    ConsensusSettings,
    InitialAnswer,
    ModelFailure,
    RefinedAnswer,
    Result,
    Totals,
    result_from_json,
)
from counsel.results.conversation import (
    AnswerDetails,
    HistoryMessage,
    Incomplete,
    MessageDetails,
    QuestionDetails,
    details_from_json,
)
from counsel.results.jobs import Cancellation, JobList, JobStatus, JobSummary, ModelState
from counsel.results.parts import (
    AnswerMetadata,
    AnswerNotice,
    AnswerSummary,
    Continuation,
    JobState,
    ModelStatus,
    PassedOver,
    Phase,
    Serialisable,
    Source,
    ToolResult,
    Verdict,
    usage_from_json,
    usage_to_json,
)

__all__ = [
    "Accepted",
    "AnswerDetails",
    "AnswerMetadata",
    "AnswerNotice",
    "AnswerSummary",
    "Cancellation",
    "ChatResult",
    "ConsensusResult",
    "ConsensusSettings",
    "Continuation",
    "HistoryMessage",
    "Incomplete",
    "InitialAnswer",
    "JobList",
    "JobState",
    "JobStatus",
    "JobSummary",
    "MessageDetails",
    "ModelFailure",
    "ModelState",
    "ModelStatus",
    "PassedOver",
    "Phase",
    "QuestionDetails",
    "RefinedAnswer",
    "Result",
    "Serialisable",
    "Source",
    "ToolResult",
    "Totals",
    "Verdict",
    "details_from_json",
    "result_from_json",
    "usage_from_json",
    "usage_to_json",
]
