"""Answers, consensus results, reviews and failures, as the API shows them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from counsel.http.api.documents.consensus import JudgeVerdict, MiddleRound, Refinement, Vote
from counsel.results import Phase, Verdict
from counsel.results.review import FindingStatus, Location, ReviewerStatus, Severity
from counsel.results.review import Verdict as CheckVerdict

# A class has the same name in the OpenAPI document; its docstring and the strings after its fields are descriptions.


class Failure(TypedDict):
    """The response to every failed request. Some codes come with more fields: docs/use/errors.md."""

    error: Annotated[str, "What happened."]
    code: Annotated[str, "For programs; docs/use/errors.md lists them."]
    hint: Annotated[str | None, "What to do next."]
    status: Annotated[int, "The response's HTTP status."]


class ErrorDetail(TypedDict):
    """An error inside another document."""

    error: Annotated[str, "What happened."]
    code: Annotated[str, "For programs."]
    hint: NotRequired[Annotated[str, "What to do next."]]


class Usage(TypedDict):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    estimated: NotRequired[Annotated[bool, "Some numbers are estimates, because the provider reported none."]]
    reasoning_tokens: NotRequired[int]
    cache_creation_input_tokens: NotRequired[int]
    cache_read_input_tokens: NotRequired[int]


class Continuation(TypedDict):
    """How to continue the conversation."""

    id: Annotated[str, "`continuation_id` of the next question."]
    provider: NotRequired[str | None]
    model: NotRequired[str | None]
    tag: NotRequired[str]
    messageCount: NotRequired[int]
    status: NotRequired[str]


class ToolRun(TypedDict):
    """A call of a shared tool."""

    server: str
    tool: str
    ms: int
    ok: bool


class PassedOver(TypedDict):
    """A model that failed before another one answered."""

    model: str
    code: str
    error: str
    usage: NotRequired[Usage]
    cost_usd: NotRequired[float | None]


class AnswerMetadata(TypedDict):
    """Who answered, how, at what cost."""

    model: str
    provider: str
    usage: Usage
    cost_usd: Annotated[float | None, "null: no price is known."]
    response_time_ms: int | None
    finish_reason: str
    answered_by: NotRequired[Annotated[str, "The model that the vendor reports, if it is a different one."]]
    settings_left_out: NotRequired[Annotated[list[str], "Settings that the model does not accept."]]
    notices: NotRequired[
        Annotated[list[dict[str, object]], "Sources, retries and warnings: `kind`, `text` and more."]
    ]
    session: NotRequired[Annotated[str, "An agent's own session."]]
    cached: NotRequired[bool]
    tool_calls: NotRequired[list[ToolRun]]
    passed_over: NotRequired[list[PassedOver]]
    files: NotRequired[list[dict[str, object]]]
    warnings: NotRequired[list[str]]


class Answer(TypedDict):
    """One model's answer."""

    content: Annotated[str, "The answer's text."]
    continuation: Continuation
    metadata: AnswerMetadata
    job_id: str
    title: NotRequired[str]
    export: NotRequired[Annotated[str, "The folder to which the conversation was exported."]]
    final_summary: NotRequired[str]


class InitialMetadata(AnswerMetadata):
    input_tokens: int
    output_tokens: int
    response_time: int | None


class InitialAnswer(TypedDict):
    model: Annotated[str, "`gpt-5#2` is the second model of that name."]
    status: str
    response: str
    choice: NotRequired[Annotated[str, "One of the offered choices."]]
    metadata: InitialMetadata


class RefinedMetadata(AnswerMetadata):
    total_response_time: int
    total_input_tokens: int
    total_output_tokens: int


class RefinedAnswer(TypedDict):
    """A model's last answer, or the reason why it did not refine its first one."""

    model: str
    status: str
    initial_response: str
    refined_response: str | None
    choice: NotRequired[str]
    changed: NotRequired[
        Annotated[bool | None, "Whether the model changed its position; null: it did not say."]
    ]
    round: NotRequired[Annotated[int, "The round of this answer: 2 or 3."]]
    metadata: NotRequired[RefinedMetadata]
    error: NotRequired[ErrorDetail]


class FailedModel(ErrorDetail):
    model: str
    status: Annotated[str, "`failed`."]
    phase: Phase


class Phases(TypedDict):
    initial: list[InitialAnswer]
    refined: list[RefinedAnswer]
    failed: list[FailedModel]
    rounds: NotRequired[Annotated[list[MiddleRound], "The rounds between the first and the last."]]
    verdict: NotRequired[JudgeVerdict]


class ConsensusSettings(TypedDict):
    enable_cross_feedback: bool
    temperature: float
    models_requested: list[str]


class Totals(TypedDict):
    """What all calls used and cost, failed ones included."""

    usage: Usage
    cost_usd: float | None
    cost_complete: Annotated[bool, "false: some prices are unknown."]
    warnings: NotRequired[list[str]]


class Consensus(TypedDict):
    """What several models answered."""

    status: Verdict
    models_consulted: int
    successful_initial_responses: int
    failed_responses: int
    refined_responses: int
    content: Annotated[
        str, "The whole result as one text: failures, verdict and vote, then each model's last answer."
    ]
    phases: Phases
    continuation: Continuation
    settings: ConsensusSettings
    metadata: Totals
    job_id: str
    vote: NotRequired[Vote]
    refinement: NotRequired[Refinement]
    title: NotRequired[str]
    export: NotRequired[str]
    final_summary: NotRequired[str]


class FindingMaker(TypedDict):
    """A finding in the words of one member that made it."""

    model: str
    severity: Severity
    title: str
    reason: str
    suggestion: str


class FindingCheck(TypedDict):
    """Another member's verdict on the finding."""

    model: str
    verdict: CheckVerdict
    reason: str


class ReviewFinding(TypedDict):
    id: str
    file: str
    line: Annotated[int | None, "null: the finding is about the whole file."]
    end_line: int | None
    severity: Annotated[Severity, "The highest severity that a member gave."]
    status: Annotated[
        FindingStatus, "`agreed`: every reviewer made the finding. Otherwise: another member's verdict."
    ]
    location: Annotated[
        Location, "`diff`: in the change. `outside`: elsewhere. `missing`: there is no such file or line."
    ]
    title: str
    reason: str
    suggestion: str
    found_by: list[str]
    made_by: list[FindingMaker]
    check: FindingCheck | None


class LeftOutFile(TypedDict):
    file: str
    reason: str


class Reviewer(TypedDict):
    """A member of a review."""

    model: str
    status: Annotated[
        ReviewerStatus, "`failed`: no review. `check_failed`: a review, but no check of the others' findings."
    ]
    findings: int
    checked: Annotated[int, "Number of other members' findings that this member checked."]
    context_lines: Annotated[int | None, "Unchanged lines sent around each change; null: all."]
    left_out: Annotated[list[str], "Files that did not fit the model's context window."]


class Review(TypedDict):
    """What several models found in a change."""

    status: Literal["review_complete", "review_partial"]
    about: str
    files: list[str]
    left_out: Annotated[list[LeftOutFile], "Files that were sent to no member."]
    findings: Annotated[list[ReviewFinding], "Most severe first."]
    reviewers: list[Reviewer]
    failed: list[FailedModel]
    content: Annotated[str, "The review as text."]
    continuation: Continuation
    metadata: Totals
    job_id: str
    title: NotRequired[str]
    export: NotRequired[str]
    final_summary: NotRequired[str]
