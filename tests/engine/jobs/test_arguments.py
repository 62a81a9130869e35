"""The limits of a request's arguments, and which names are ours and which a caller's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.jobs import ids, process_identity, tags
from counsel.engine.jobs.arguments import checked
from counsel.errors import InvalidArgument
from counsel.request_rules import check_name
from counsel.requests import ChatRequest, ConsensusRequest

CHAT = ChatRequest(prompt="p")
CONSENSUS = ConsensusRequest(prompt="p", models=("a", "b"))


def test_blank_optional_arguments_count_as_absent() -> None:
    blank: dict[str, Any] = dict.fromkeys(("model", "files", "images", "tools", "use_websearch", "export"))
    blank |= {"continuation_id": "", "reasoning_effort": "", "temperature": None}
    request = replace(CHAT, **blank)
    assert checked(request) == CHAT
    checked(request)
    assert checked(CHAT) is CHAT
    value = replace(CHAT, model="m", files=("f",), temperature=0, use_websearch=False)
    assert checked(value) is value
    assert checked(replace(CONSENSUS, cross_feedback_prompt="")) == CONSENSUS
    assert checked(replace(CONSENSUS, choices=[])) == CONSENSUS  # type: ignore[arg-type]


def test_blank_parts_of_a_member_count_as_absent() -> None:
    members: Any = ("a", {"model": "b", "role": None, "stance": ""}, {"model": "c", "role": "critic"})
    request = checked(replace(CONSENSUS, models=members))
    assert request.models == ("a", {"model": "b"}, {"model": "c", "role": "critic"})  # type: ignore[union-attr]


@pytest.mark.parametrize("amount", [1e308, 1.7e308])
def test_an_amount_may_be_as_large_as_a_number_can_be(amount: float) -> None:
    checked(replace(CHAT, max_cost_usd=amount))
    with pytest.raises(InvalidArgument, match="max_cost_usd must be 0 or more"):
        checked(replace(CHAT, max_cost_usd=10**309))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("prompt", ["p"], [5, None, ["p"], b"p", "", " "]),
        ("files", [(), ("f",)], [["f"], "f", (5,)]),
        ("temperature", [0, 1, 0.5], [-0.1, 1.1, True, "1"]),
        ("reasoning_effort", ["low", "max"], ["lots", 5]),
        ("verbosity", ["low"], ["loud"]),
        ("use_websearch", [True, False], [1, "yes"]),
        ("export", [True, False, "/folder"], [5, ("x",)]),
        ("model", ["m"], [("m",), 5]),
        ("tool", ["chat", "askModel"], ["consensus", "x" * 500, 5]),
        ("session", ["s"], [5, ("s",)]),
    ],
)
def test_each_argument_must_have_its_type(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        checked(replace(CHAT, **{name: value}))
    for value in bad:
        with pytest.raises(InvalidArgument, match=rf"^chat: {name}(\[0\])? must "):
            checked(replace(CHAT, **{name: value}))


def test_every_wrong_argument_is_named_and_none_is_repeated_at_length() -> None:
    wrong: dict[str, Any] = {"temperature": 5, "model": 7, "verbosity": "v" * 500}
    with pytest.raises(InvalidArgument) as error:
        checked(replace(CHAT, **wrong))
    words = str(error.value)
    assert "model must be" in words
    assert "temperature must be from 0 to 1, not 5;" in words
    assert "v" * 80 in words
    assert "v" * 81 not in words
    with pytest.raises(InvalidArgument, match="models must be"):
        checked(replace(CONSENSUS, models="a"))  # type: ignore[arg-type]


def test_a_models_name_has_a_limit_because_results_and_errors_repeat_it() -> None:
    fits, long = "m" * 256, "m" * 98_000
    checked(replace(CHAT, model=", ".join([fits] * 10)))
    checked(replace(CONSENSUS, models=(fits, {"model": fits}), judge=fits))
    for request, where in (
        (replace(CHAT, model=f"gpt-5, {long}"), "chat: model"),
        (replace(CONSENSUS, models=("gpt-5", long)), r"consensus: models\[1\]"),
        (replace(CONSENSUS, models=({"model": long},)), r"consensus: models\[0\]"),
        (replace(CONSENSUS, models=("gpt-5",), judge=long), "consensus: judge"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{where} names a model with 98,000 characters"):
            checked(request)
    with pytest.raises(InvalidArgument) as error:
        checked(replace(CONSENSUS, models=tuple(long + str(number) for number in range(20))))
    assert len(str(error.value)) < 2_000


UUID = "123e4567-e89b-42d3-a456-426614174000"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (f"conv_{UUID}", True),
        (f"job_{UUID}", True),
        (f"other_{UUID}", False),
        (UUID, False),
        (f"conv_{UUID[:8]}", True),
        (f"conv_{UUID[:7]}", False),
        ("conv_20241231", False),  # a date
        ("conv_12345678901234567890", True),
        ("conv_1234567890123456789", False),
        ("conv_deadbeef-cafe", True),
        ("conv_deadbeef-caf", False),  # a word
        ("conv_123e4567-e89b-42d3-a456-42661417xxxx", True),  # mistyped
        ("conv_xxxxxxxx-xxxx-42d3-a456-426614174000", False),
        ("conv_abcdefxyz1", False),
        ("consensus_1703123456789_xyz789", False),
        ("conv_12-34-56-78-90-12-34-56-78-90", True),
        ("conv_12-34-56-78", False),
    ],
)
def test_names_that_only_counsel_gives_out(name: str, ours: bool) -> None:
    assert ids.is_ours(name) is ours


@pytest.mark.parametrize(
    ("name", "safe"),
    [("a", True), ("a.b-c_9", True), ("x" * 64, True), ("x" * 65, False), ("", False), (".", False), ("..", False), ("a/b", False), ("a b", False), ("é", False)],
)  # fmt: skip
def test_safe_names(name: str, safe: bool) -> None:
    if safe:
        assert check_name(name, "a conversation") == name
        return
    for kind in ("a conversation", "a session tag"):
        with pytest.raises(InvalidArgument, match=f"cannot name {kind}"):
            check_name(name, kind)


def test_the_same_call_has_the_same_id_and_another_call_a_new_one() -> None:
    assert ids.of_call("key") == ids.of_call("key") != ids.of_call("other")
    assert ids.of_call(None) != ids.of_call(None)
    assert ids.of_call(None).startswith("job_")
    assert ids.new("ask").startswith("ask_")


def test_a_project_is_the_repository_around_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "repository" / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    assert tags.project(inner) == str((tmp_path / "repository").resolve())
    alone = tmp_path / "alone"
    alone.mkdir()
    assert tags.project(alone) == str(alone.resolve())
    assert tags.shown("session:tag") == "tag"
    assert tags.shown("tag") == "tag"


def test_without_proc_there_is_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Path) -> Path:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "readlink", missing)
    assert process_identity._namespace() == ""
