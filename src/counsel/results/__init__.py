"""The engine's answers as typed values: every interface reads the fields, and calls `to_json` once, when it sends them.

`from_json` reads what another process sent over the daemon's socket or stored in the database, and keeps the document,
which `to_json` returns unchanged, including fields of another release. When changing such a value with `replace`, set
`document` to None.
"""

from __future__ import annotations

from counsel.results.answers import Accepted, ChatResult, Result, result_from_json
from counsel.results.consensus import (
    ConsensusResult,
    ConsensusSettings,
    InitialAnswer,
    ModelFailure,
    RefinedAnswer,
    Totals,
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
from counsel.results.review import Finding, LeftOutFile, Reviewer, ReviewResult
from counsel.results.verdict import (
    Ballot,
    Contradiction,
    Ended,
    JudgeVerdict,
    MiddleRound,
    Minority,
    PartialCoverage,
    Position,
    Refinement,
    RoundAnswer,
    UniqueInsight,
    Vote,
    VoteFailure,
)

__all__ = [
    "Accepted",
    "AnswerDetails",
    "AnswerMetadata",
    "AnswerNotice",
    "AnswerSummary",
    "Ballot",
    "Cancellation",
    "ChatResult",
    "ConsensusResult",
    "ConsensusSettings",
    "Continuation",
    "Contradiction",
    "Ended",
    "Finding",
    "HistoryMessage",
    "Incomplete",
    "InitialAnswer",
    "JobList",
    "JobState",
    "JobStatus",
    "JobSummary",
    "JudgeVerdict",
    "LeftOutFile",
    "MessageDetails",
    "MiddleRound",
    "Minority",
    "ModelFailure",
    "ModelState",
    "ModelStatus",
    "PartialCoverage",
    "PassedOver",
    "Phase",
    "Position",
    "QuestionDetails",
    "RefinedAnswer",
    "Refinement",
    "Result",
    "ReviewResult",
    "Reviewer",
    "RoundAnswer",
    "Serialisable",
    "Source",
    "ToolResult",
    "Totals",
    "UniqueInsight",
    "Verdict",
    "Vote",
    "VoteFailure",
    "details_from_json",
    "result_from_json",
    "usage_from_json",
    "usage_to_json",
]
