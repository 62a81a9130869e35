"""People's names and documents, the audit log, sealed keys, and whether a server is ready."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine import readiness
from counsel.engine.store.audit import AuditRecord
from counsel.engine.store.health import QueueState
from counsel.engine.store.people import PersonRecord, PersonUsage, TokenRecord
from counsel.engine.team import audit
from counsel.engine.team.audit import Audit, Sender
from counsel.engine.team.people import documents, names
from counsel.engine.team.people.directory import NewToken
from counsel.engine.team.sealing import Sealer
from counsel.errors import ConfigInvalid, InvalidArgument, ProviderUnavailable
from counsel.people import OPERATOR, Person

# ── names ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "expected"), [(" Ada ", "Ada"), ("é", "é"), ("x" * 64, "x" * 64)])
def test_a_persons_name(name: str, expected: str) -> None:
    assert names.person(name) == expected


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "a\nb", "a\u202eb", "a\ud800", "Operator", "a\u2028b"])
def test_a_name_that_a_person_cannot_have(name: str) -> None:
    with pytest.raises(InvalidArgument):
        names.person(name)


def test_names_that_look_the_same_are_the_same() -> None:
    assert names.folded(" ADA ") == names.folded("Ada") == names.folded("ada")
    assert names.folded("STRASSE") == names.folded("straße")
    assert names.folded("Bob") != names.folded("Ada")


def test_groups_are_sorted_lowered_and_limited() -> None:
    assert names.groups(["B.x", " a-1 ", "b.x"]) == ("a-1", "b.x")
    assert len(names.groups([f"g{n}" for n in range(20)])) == 20
    with pytest.raises(InvalidArgument, match="at most 20"):
        names.groups([f"g{n}" for n in range(21)])
    for name in ("", "-a", "a b", "x" * 65, "ü"):
        with pytest.raises(InvalidArgument, match="not a group name"):
            names.groups([name])
    assert names.group("x" * 64) == "x" * 64


def test_roles_and_labels() -> None:
    assert [names.role(role) for role in ("admin", "member", "read-only")] == ["admin", "member", "read-only"]
    with pytest.raises(InvalidArgument, match="no role 'Admin'") as excinfo:
        names.role("Admin")
    assert "read-only" in str(excinfo.value.hint)
    assert names.label(" laptop ") == "laptop"
    assert names.label("x" * 64)
    for label in ("x" * 65, "a\tb"):
        with pytest.raises(InvalidArgument, match="label"):
            names.label(label)


def test_ids_and_tokens() -> None:
    assert names.is_id(names.new_id("p"))
    assert names.new_id("p").startswith("p_")
    assert names.new_id("p") != names.new_id("p")
    for text in ("", "1a", "a-b", "a;b", "x" * 65):
        assert not names.is_id(text)
    token = names.new_token()
    assert token.startswith("csl_")
    assert len(token) > 40
    assert names.hashed(token) == names.hashed(token) != names.hashed(names.new_token())
    assert names.hashed("\ud800"), "whatever a header holds"


# ── documents ────────────────────────────────────────────────────────────────────────────────────────

ADA = Person("p_1", "Ada", "admin", ("a", "b"))
TOKEN = TokenRecord("t_1", "laptop", 1_000_000_000.0, None, 1_000_000_060.0)
SHOWN = {
    "id": "t_1",
    "label": "laptop",
    "created_at": "2001-09-09T01:46:40.000Z",
    "expires_at": None,
    "used_at": "2001-09-09T01:47:40.000Z",
}


def test_a_person_as_json() -> None:
    assert documents.person(PersonRecord(ADA, 1_000_000_000.0, None, (TOKEN,))) == {
        "id": "p_1",
        "name": "Ada",
        "role": "admin",
        "groups": ["a", "b"],
        "created_at": "2001-09-09T01:46:40.000Z",
        "disabled_at": None,
        "tokens": [SHOWN],
    }
    document = documents.person(PersonRecord(ADA, 1_000_000_000.0, 1_000_000_000.0))
    assert document["disabled_at"] == "2001-09-09T01:46:40.000Z"


def test_a_new_token_is_shown_once() -> None:
    assert documents.new_token(NewToken(ADA, TOKEN, "csl_x")) == {
        "id": "p_1",
        "name": "Ada",
        "role": "admin",
        "groups": ["a", "b"],
        "token_id": "t_1",
        "expires_at": None,
        "token": "csl_x",
    }


def test_usage_and_audit_as_json() -> None:
    document = documents.used(PersonUsage("p_1", "Ada", 3, 1, 10, 20, 0.12345678, 0, 1_000_000_000.0))
    assert document == {
        "person": "p_1",
        "name": "Ada",
        "calls": 3,
        "failed": 1,
        "input_tokens": 10,
        "output_tokens": 20,
        "cost_usd": 0.123457,
        "cost_complete": True,
        "last_at": "2001-09-09T01:46:40.000Z",
    }
    assert not documents.used(PersonUsage("", "", 1, 0, 0, 0, 0.0, 1, 0.0))["cost_complete"]
    record = AuditRecord(1_000_000_000.0, "p_1", "Ada", "t_1", "10.0.0.1", "asked", "job_1", "gpt-5")
    assert documents.audited(record) == {
        "at": "2001-09-09T01:46:40.000Z",
        "person": "p_1",
        "name": "Ada",
        "token": "t_1",
        "address": "10.0.0.1",
        "action": "asked",
        "object": "job_1",
        "detail": "gpt-5",
    }


# ── the audit log ────────────────────────────────────────────────────────────────────────────────────


class LogStub:
    def __init__(self) -> None:
        self.records: list[AuditRecord] = []
        self.lives: list[float] = []

    def add(self, record: AuditRecord, expires: float) -> None:
        self.records.append(record)
        self.lives.append(round((expires - record.at) / 86400, 3))


def audited(*, prompts: bool = False) -> tuple[Audit, LogStub]:
    log: Any = LogStub()
    return Audit(log, 30, prompts=prompts), log


def test_actions_are_recorded_for_some_days() -> None:
    audit_log, log = audited()
    audit_log.note(Sender(ADA, "t_1", "10.0.0.1"), "deleted", "j" * 600, "d" * 600)
    audit_log.note(Sender(None), "refused", "/api")
    first, second = log.records
    assert (first.person, first.name, first.token, first.address) == ("p_1", "Ada", "t_1", "10.0.0.1")
    assert (first.action, len(first.object), len(first.detail)) == ("deleted", 500, 500)
    assert (second.person, second.name) == ("", "")
    assert log.lives == [30.0, 30.0]


def test_a_question_is_recorded_only_if_the_team_wants_that() -> None:
    for prompts, detail in ((False, "gpt-5"), (True, "gpt-5\nthe question")):
        audit_log, log = audited(prompts=prompts)
        audit_log.note_question(Sender(ADA), "job_1", "gpt-5", "the question")
        assert (log.records[0].action, log.records[0].object, log.records[0].detail) == (
            "asked",
            "job_1",
            detail,
        )
    audit_log.note_question(Sender(ADA), "job_2", "x" * 600, "y" * 30_000)
    assert len(log.records[1].detail) == 500 + 1 + 20_000


def test_a_client_that_returns_to_its_job_has_asked_once() -> None:
    audit_log, log = audited()
    for job in ("job_1", "job_1", "job_2"):
        audit_log.note_question(Sender(ADA), job, "gpt-5 through v1", "")
    assert [record.object for record in log.records] == ["job_1", "job_2"]


def test_endless_refusals_do_not_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(audit, "time", SimpleNamespace(time=lambda: 1.0, monotonic=lambda: now))
    audit_log, log = audited()
    for _ in range(200):
        audit_log.note(Sender(None), "refused")
    assert len(log.records) == audit.MOST_REFUSALS
    assert "more than 60 a minute" in log.records[-1].detail
    assert "more than" not in log.records[-2].detail
    audit_log.note(Sender(ADA), "deleted", "j")
    now += 60.0
    audit_log.note(Sender(None), "refused")
    assert [record.action for record in log.records[-2:]] == ["refused", "deleted"], "the minute is not over"
    now += 0.1
    audit_log.note(Sender(None), "refused")
    assert [record.action for record in log.records[-2:]] == ["deleted", "refused"]


# ── sealed keys ──────────────────────────────────────────────────────────────────────────────────────

SECRET, OLD = "s" * 32, "o" * 32


def test_a_key_is_readable_for_its_person_and_provider_only() -> None:
    sealer = Sealer(SECRET)
    ciphertext = sealer.seal("p_1", "openai", "sk-1")
    assert b"sk-1" not in ciphertext
    assert ciphertext != sealer.seal("p_1", "openai", "sk-1")
    assert Sealer(SECRET).open("p_1", "openai", ciphertext) == "sk-1"
    broken = [
        ciphertext[:-1],
        b"\x02" + ciphertext[1:],
        ciphertext[:5],
        b"",
        ciphertext[:9] + b"x" + ciphertext[10:],
    ]
    cases = [
        ("p_2", "openai", ciphertext),
        ("p_1", "xai", ciphertext),
        *(("p_1", "openai", data) for data in broken),
    ]
    for person, provider, data in cases:
        with pytest.raises(ConfigInvalid, match=f"own key for {provider} cannot be read"):
            sealer.open(person, provider, data)


def test_a_key_of_the_old_secret_is_read_and_sealed_again() -> None:
    before = Sealer(OLD).seal("p_1", "openai", "sk-1")
    sealer = Sealer(SECRET, OLD)
    assert sealer.open("p_1", "openai", before) == "sk-1"
    assert not sealer.is_current(before)
    assert sealer.is_current(sealer.seal("p_1", "openai", "sk-1"))
    with pytest.raises(ConfigInvalid):
        Sealer(SECRET).open("p_1", "openai", before)


@pytest.mark.parametrize(
    ("secret", "old", "problem"),
    [
        ("", "", "has no COUNSEL_SECRET_KEY"),
        ("", OLD, "has no COUNSEL_SECRET_KEY"),
        ("s" * 31, "", "COUNSEL_SECRET_KEY has fewer than 32"),
        (SECRET, "o" * 31, "COUNSEL_SECRET_KEY_OLD has fewer than 32"),
    ],
)
def test_a_missing_or_short_secret_is_refused(secret: str, old: str, problem: str) -> None:
    with pytest.raises(ConfigInvalid, match=problem):
        Sealer(secret, old)


# ── readiness ───────────────────────────────────────────────────────────────────────────────────────────


def store(queue: QueueState | Exception | None = None, problem: str = "") -> Any:
    async def check() -> None:
        if isinstance(queue, Exception):
            raise queue

    async def state() -> object:
        return queue

    health = SimpleNamespace(check=check, queue=state)
    return SimpleNamespace(team=None if queue is None else SimpleNamespace(health=health), problem=problem)


@pytest.mark.parametrize(
    ("store_", "limit", "draining", "codes"),
    [
        (store(), 10, False, []),
        (store(), 10, True, ["draining"]),
        (store(problem="full"), 10, False, ["database"]),
        (store(problem="full"), 10, True, ["draining", "database"]),
        (store(QueueState(oldest_seconds=10.0)), 10, False, []),
        (store(QueueState(oldest_seconds=10.5)), 10, False, ["queue"]),
        (store(QueueState(oldest_seconds=10.5)), 0, False, []),
        (store(ConfigInvalid("host db.example is older")), 10, False, ["schema"]),
        (store(ProviderUnavailable("host db.example is gone")), 10, False, ["database"]),
        (store(QueueState(), problem="of a file"), 10, False, []),
    ],
)
async def test_why_a_server_should_get_no_work(
    store_: Any, limit: int, draining: bool, codes: list[str]
) -> None:
    reasons = await readiness.not_ready(store_, limit, draining=draining)
    assert [reason.code for reason in reasons] == codes
    assert "db.example" not in str([reason.to_json() for reason in reasons]), "anybody may ask"


async def test_a_database_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CHECK_SECONDS", 0.01)
    silent = store(QueueState())
    silent.team.health.check = asyncio.Event().wait
    (reason,) = await readiness.not_ready(silent, 10)
    assert reason.to_json()["code"] == "database"
    assert "did not answer" in reason.to_json()["text"]


async def test_a_probe_does_not_wait_until_a_silent_database_has_been_told_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver does not abandon a query at once: it asks the server to stop it, and the server is silent."""
    monkeypatch.setattr(readiness, "CHECK_SECONDS", 0.01)
    answers = asyncio.Event()

    async def check() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await answers.wait()

    silent = store(QueueState())
    silent.team.health.check = check
    async with asyncio.timeout(30):
        (reason,) = await readiness.not_ready(silent, 10)
    assert reason.code == "database"
    answers.set()


def test_the_operator_is_an_admin_who_asks() -> None:
    assert OPERATOR.is_admin
    assert OPERATOR.may_ask
    assert not Person("p", "P", "read-only").may_ask
    assert not Person("p", "P").is_admin
