"""`review`: several models each review a change alone; then each finding is checked by a model that did not make it.

N members make at most 2 N calls, as all findings that a member has to check are in one call. (A member that does not
answer with the requested JSON is asked once more.) No member reads another one's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from counsel.engine import results
from counsel.engine.consult import chat
from counsel.engine.consult import prompts as general
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.review import diff, findings, members, prompts, selection
from counsel.engine.consult.review.diff import FileDiff
from counsel.engine.consult.review.findings import RawFinding
from counsel.engine.consult.review.members import Phase, Reviewer
from counsel.engine.consult.review.selection import Excerpt
from counsel.engine.consult.routes import Route, Router
from counsel.engine.context import tokens
from counsel.engine.context.allowed_folders import Folders
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.running import Outcome
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.errors import ContextLengthExceeded, CounselError, Internal, NotFound, SchemaMismatch
from counsel.lazy_dataclass import dataclass
from counsel.results import AnswerDetails, AnswerSummary, Continuation, ModelFailure, ReviewResult
from counsel.results import Reviewer as ReviewerSummary
from counsel.results.review import (
    SEVERITIES,
    STATUSES,
    Check,
    Finding,
    FindingStatus,
    Location,
    MemberFinding,
    Verdict,
)
from counsel.types import Call, Json, Turn

T = TypeVar("T")
_AGENT_WINDOW = 100_000  # tokens of a change that an agent gets, since its context window is unknown
_SHARE = 0.75  # of the context window, for the question; the rest is for thinking and the answer


@dataclass(frozen=True, slots=True)
class Review:
    """One member's answer in the first round."""

    reply: Reply
    excerpt: Excerpt
    findings: tuple[RawFinding, ...]


@dataclass(frozen=True, slots=True)
class CheckReply:
    reply: Reply
    verdicts: Mapping[str, tuple[Verdict, str]]


async def run(consultation: Consultation, router: Router, store: Store, answers: AnswerCache) -> Outcome:
    del store
    return await _Run(consultation, router, answers).outcome()


class _Run:
    def __init__(self, consultation: Consultation, router: Router, answers: AnswerCache) -> None:
        self._consultation = consultation
        self._job = consultation.job
        self._answers = answers
        self._files = diff.parse(change_of(self._job))
        self._panel = members.panel(self._job, router)
        self._failures: list[ModelFailure] = []
        self._lines = _LineCounts(self._job)
        for member in self._panel:
            consultation.live.slots[member.slot].model = member.label

    async def outcome(self) -> Outcome:
        replies = await members.ask_all(self._consultation, self._panel, "review", self._review)
        reviews = self._without_failures(replies, "review")
        if not reviews:
            raise results.all_failed(self._failures)
        groups = findings.merge([review.findings for review in reviews.values()])
        assignments = findings.assign(groups, list(reviews))
        checks = await self._checks(groups, assignments)
        return await asyncio.to_thread(self._outcome, reviews, groups, checks)  # reads files

    def _without_failures(self, replies: Mapping[str, T | CounselError], phase: Phase) -> dict[str, T]:
        """The answers; failures are left out and recorded."""
        for slot, reply in replies.items():
            if isinstance(reply, CounselError):
                self._failures.append(ModelFailure(self._label(slot), phase, reply))
        return {slot: reply for slot, reply in replies.items() if not isinstance(reply, CounselError)}

    # ── the calls ──

    async def _review(self, member: Reviewer) -> Review:
        question = self._job.task.prompt
        excerpt = self._fit(
            member, self._files, prompts.review(question, "", [file.path for file in self._files])
        )
        text = prompts.review(question, excerpt.text, excerpt.left_out)
        call = self._call(member, prompts.REVIEWER, text, prompts.REVIEW)
        reply, raw_findings = await self._ask(
            member, "review", call, lambda answer: findings.read(answer, member.slot, self._files)
        )
        return Review(reply, excerpt, tuple(raw_findings))

    async def _checks(
        self, groups: Sequence[Sequence[RawFinding]], assignments: Mapping[str, Sequence[int]]
    ) -> dict[str, CheckReply]:
        if not assignments:
            return {}
        checking = [member for member in self._panel if member.slot in assignments]

        async def check(member: Reviewer) -> CheckReply:
            return await self._check(member, [groups[at][0] for at in assignments[member.slot]])

        replies = await members.ask_all(self._consultation, checking, "check", check)
        return self._without_failures(replies, "check")

    async def _check(self, member: Reviewer, claims: list[RawFinding]) -> CheckReply:
        """Check these findings, the worst first, sending only the files that they are about, if these fit."""
        claims.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.id))
        half = self._window(member) // 2
        while len(claims) > 1 and tokens.estimate(prompts.check("", claims)) > half:
            claims.pop()
        paths = {finding.file for finding in claims}
        files = [file for file in self._files if file.path in paths]
        excerpt = self._fit(member, files, prompts.check("", claims), needs_one=False)
        call = self._call(member, prompts.CHECKER, prompts.check(excerpt.text, claims), prompts.CHECK)
        reply, verdicts = await self._ask(member, "check", call, findings.verdicts)
        return CheckReply(reply, verdicts)

    def _window(self, member: Reviewer) -> int:
        model = _route(member).model
        return int(_SHARE * model.context) if model else _AGENT_WINDOW

    def _fit(
        self, member: Reviewer, files: Sequence[FileDiff], frame: str, *, needs_one: bool = True
    ) -> Excerpt:
        overhead = tokens.estimate(frame) + tokens.estimate(prompts.system(prompts.REVIEWER, prompts.REVIEW))
        room = self._window(member) - overhead
        excerpt = selection.fit(files, max(0, room), tokens.estimate)
        if needs_one and not excerpt.files:
            size = min(tokens.estimate(file.narrowed(selection.NARROWER[-1]).for_model()) for file in files)
            raise ContextLengthExceeded(
                f"No file of the change fits into {member.label}'s context: the smallest has about {size:,} tokens, and "
                f"there is room for {max(0, room):,}.",
                hint="Choose a model with a larger context, or review a smaller change.",
                max_tokens=max(0, room),
                provided_tokens=size,
                model=member.label,
            )
        return excerpt

    def _call(self, member: Reviewer, part: str, text: str, schema: Json) -> Call:
        task, route = self._job.task, _route(member)
        role = general.part(member.role, "")
        system = "\n\n".join(filter(None, [prompts.system(part, schema), task.system, role]))
        call = Call((Turn("user", text),), system, task.model_settings, schema=schema)
        if route.model is None:
            return replace(call, cwd=self._job.caller.cwd)
        return replace(call, tokens=tokens.check_window(call, route.model))

    async def _ask(
        self, member: Reviewer, phase: Phase, call: Call, parse: Callable[[str], T | None]
    ) -> tuple[Reply, T]:
        """The reply and its parsed content. An answer that cannot be parsed is sent back once."""
        limit = float(self._job.caller.settings.model_limit_seconds)
        step = Step(f"{phase}:{member.slot}", member.slot, phase, limit, is_json=True)
        route = _route(member)
        variant = member.label if member.is_repeated else ""
        reply = await self._answers.ask(self._consultation, step, route, call, variant)
        if (content := parse(reply.text)) is not None:
            return reply, content
        retry = replace(
            call,
            turns=(*call.turns, Turn("assistant", reply.text), Turn("user", prompts.AGAIN)),
            session=reply.session or call.session,
        )
        self._consultation.discard(step, route, "its answer does not have the requested form")
        second = await self._consultation.ask(replace(step, key=f"{step.key}:corrected"), route, retry)
        if (content := parse(second.text)) is None:
            failure = SchemaMismatch(
                f"{member.label} did not answer with the requested JSON, even when asked again.",
                hint="Ask another model.",
                provider=route.provider,
                model=member.label,
                path="$",
                partial=second.text,
            )
            results.charge(failure, reply.usage + second.usage)
            raise failure
        return replace(second, usage=reply.usage + second.usage, ms=reply.ms + second.ms), content

    # ── the result ──

    def _label(self, slot: str) -> str:
        return self._panel[int(slot)].label

    def _outcome(
        self,
        reviews: Mapping[str, Review],
        groups: Sequence[Sequence[RawFinding]],
        checks: Mapping[str, CheckReply],
    ) -> Outcome:
        job, about = self._job, self._job.task.review or {}
        merged = [self._finding(group, reviews, checks) for group in groups]
        replies = [review.reply for review in reviews.values()] + [check.reply for check in checks.values()]
        result = ReviewResult(
            status="review_partial" if self._failures else "review_complete",
            about=about.get("about", ""),
            files=tuple(file.path for file in self._files),
            left_out=tuple(about.get("left_out", ())),
            findings=tuple(sorted(merged, key=_rank)),
            reviewers=tuple(self._reviewers(reviews, checks)),
            failed=tuple(self._failures),
            continuation=Continuation(id=job.conversation),
            metadata=results.totals(replies, [failure.error for failure in self._failures]),
            job_id=job.id,
        )
        details = AnswerDetails(totals=result.metadata, members=tuple(self._members(reviews)))
        return Outcome(
            status="completed_with_errors" if self._failures else "completed",
            result=result,
            messages=chat.turn(job, result.content, details),
            completed=len(self._panel),
            text=result.content,
        )

    def _finding(
        self, group: Sequence[RawFinding], reviews: Mapping[str, Review], checks: Mapping[str, CheckReply]
    ) -> Finding:
        worst = min(group, key=lambda finding: SEVERITIES.index(finding.severity))
        check = self._check_for(group, checks)
        everyone = len(reviews) > 1 and {finding.slot for finding in group} == set(reviews)
        status: FindingStatus = "agreed" if everyone else check.verdict if check else "unchecked"
        lines = [finding.line for finding in group if finding.line is not None]
        ends = [finding.last for finding in group if finding.last is not None]
        locations = {self._location(finding) for finding in group}
        return Finding(
            id=group[0].id,
            file=worst.file,
            line=min(lines, default=None),
            end_line=self._end(worst.file, min(lines, default=0), max(ends, default=None)),
            severity=worst.severity,
            status=status,
            location="diff" if "diff" in locations else "outside" if "outside" in locations else "missing",
            title=worst.title,
            reason=worst.reason,
            suggestion=worst.suggestion
            or next((finding.suggestion for finding in group if finding.suggestion), ""),
            made_by=tuple(
                MemberFinding(
                    model=self._label(finding.slot),
                    severity=finding.severity,
                    title=finding.title,
                    reason=finding.reason,
                    suggestion=finding.suggestion,
                )
                for finding in group
            ),
            check=check,
        )

    def _check_for(self, group: Sequence[RawFinding], checks: Mapping[str, CheckReply]) -> Check | None:
        """The verdict of a member that did not make the finding. After a restart it may not be the assigned member."""
        authors = {finding.slot for finding in group}
        for slot, reply in checks.items():
            for finding in group:
                if slot not in authors and finding.id in reply.verdicts:
                    verdict, reason = reply.verdicts[finding.id]
                    return Check(self._label(slot), verdict, reason)
        return None

    def _location(self, finding: RawFinding) -> Location:
        files = {file.path: file for file in self._files}
        return findings.location(finding, files, self._lines.of)

    def _end(self, name: str, line: int, end: int | None) -> int | None:
        """The last line of a finding, at most the file's last line: a model may name a later one."""
        diff_end = next((file.last_line for file in self._files if file.path == name), None)
        last = diff_end or self._lines.of(name) or 0
        return min(end, last) if end and line <= last else end

    def _reviewers(
        self, reviews: Mapping[str, Review], checks: Mapping[str, CheckReply]
    ) -> Iterator[ReviewerSummary]:
        """One row for each member, in order."""
        failed_labels = {failure.model for failure in self._failures}
        for member in self._panel:
            review = reviews.get(member.slot)
            if review is None:
                yield ReviewerSummary(model=member.label, status="failed")
                continue
            yield ReviewerSummary(
                model=member.label,
                status="check_failed" if member.label in failed_labels else "reviewed",
                findings=len(review.findings),
                checked=len(checks[member.slot].verdicts) if member.slot in checks else 0,
                context_lines=review.excerpt.context,
                left_out=review.excerpt.left_out,
            )

    def _members(self, reviews: Mapping[str, Review]) -> Iterator[AnswerSummary]:
        """The models that answered. Stored with the conversation: a chat that continues it stays with one of them."""
        for slot, review in reviews.items():
            reply = review.reply
            yield AnswerSummary(
                model=_route(self._panel[int(slot)]).name,
                provider=reply.provider,
                usage=reply.usage,
                cost_usd=reply.usage.cost_usd,
                response_time_ms=reply.ms,
                finish_reason=reply.finish_reason,
            )


def change_of(job: Job) -> str:
    """The diff, which is the end of the question's text."""
    return job.task.text[(job.task.review or {}).get("offset", 0) :]


class _LineCounts:
    """The numbers of lines in the repository's files, since a finding may name a line that does not exist."""

    def __init__(self, job: Job) -> None:
        root = (job.task.review or {}).get("root")
        self._root = Path(root) if root else None
        self._folders = Folders.of(job.caller)
        self._most = job.caller.settings.max_file_bytes
        self._counts: dict[str, int | None] = {}

    def of(self, name: str) -> int | None:
        """The file's number of lines; -1: there is no such file; None: unknown."""
        if name not in self._counts:
            self._counts[name] = self._count(name)
        return self._counts[name]

    def _count(self, name: str) -> int | None:
        if ".." in name.split("/"):
            return -1
        if self._root is None:
            return None
        try:
            with self._folders.open(name, self._root / name) as file:
                data = file.read(self._most)
        except NotFound:
            return -1
        except CounselError:
            return None
        return None if len(data) >= self._most else data.count(b"\n") + (not data.endswith(b"\n"))


def _route(member: Reviewer) -> Route:
    if member.route is None:
        raise member.error or Internal(f"{member.label} has no route.")
    return member.route


def _rank(finding: Finding) -> tuple[int, int, int, str, int]:
    """Sort key: the worst first; within a severity, by status and by how many members made the finding."""
    return (
        SEVERITIES.index(finding.severity),
        STATUSES.index(finding.status),
        -len(finding.made_by),
        finding.file,
        finding.line or 0,
    )
