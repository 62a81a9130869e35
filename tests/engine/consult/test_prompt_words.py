"""The words around answers that models read: one other or several, with and without what is asked for at the end."""

from __future__ import annotations

import pytest

from counsel.engine.consult import prompts


@pytest.mark.parametrize(
    ("answers", "words", "look"),
    [
        (["one"], "1 other answered this question before you", "Look at it critically"),
        (["one", "two"], "2 others answered this question before you", "Look at them critically"),
    ],
)
def test_who_answers_after_others_reads_how_many_they_were(answers: list[str], words: str, look: str) -> None:
    text = prompts.after_others("Which?", answers)
    assert text.startswith("Which?\n\n---\n\n")
    assert words in text
    assert look in text
    assert "\n\n".join(answers) in text


@pytest.mark.parametrize(
    ("count", "words"), [(2, "You and 1 other were asked"), (3, "You and 2 others were asked")]
)
def test_who_refines_an_answer_reads_how_many_the_others_are(count: int, words: str) -> None:
    text = prompts.refine([f"answer {number}" for number in range(count)], None)
    assert words in text
    assert "answer 0\n\nanswer 1" in text
    assert text.endswith("It must be complete in itself.")


def test_what_is_added_to_a_refinement_comes_last_and_only_if_it_says_something() -> None:
    answers = ["a", "b"]
    assert prompts.refine(answers, " more ", " last ").endswith("in itself.\n\nmore\n\nlast")
    assert prompts.refine(answers, "  ", "last").endswith("in itself.\n\nlast")
    assert prompts.refine(answers, "more").endswith("in itself.\n\nmore")


@pytest.mark.parametrize(
    ("role", "stance", "lines"),
    [
        ("", "", 0),
        ("a lawyer", "", 1),
        ("", "neutral", 1),
        ("", "for", 2),
        ("a lawyer", "against", 3),
    ],
)
def test_a_members_role_and_stance_are_asked_for(role: str, stance: str, lines: int) -> None:
    text = prompts.part(role, stance)
    assert len(text.splitlines()) == lines
    assert text.startswith("Answer in this role: a lawyer") is bool(role)
    assert ("cannot be made honestly" in text) is (stance in {"for", "against"})


@pytest.mark.parametrize("chooses", [True, False])
def test_a_judge_reads_the_number_of_answers_and_chooses_only_if_there_are_choices(chooses: bool) -> None:
    text = prompts.judge("Which?", ["A", "B", "C"], chooses=chooses)
    assert "was put to 3 experts" in text
    assert "A\n\nB\n\nC" in text
    assert ("- choice: the one of the choices" in text) is chooses


@pytest.mark.parametrize(("count", "words"), [(1, "1 image here"), (2, "2 images here")])
def test_earlier_images_are_counted_for_who_cannot_see_them(count: int, words: str) -> None:
    assert words in prompts.unseen(count)


def test_turns_are_quoted_with_their_roles() -> None:
    turns = [("user", "Hi."), ("assistant", "Yes?")]
    quoted = "<user>\nHi.\n</user>\n\n<assistant>\nYes?\n</assistant>\n\nNow:\n\n"
    assert prompts.earlier(turns).endswith(quoted)
    assert prompts.missed_turns(turns).endswith(quoted)
    assert prompts.earlier(turns) != prompts.missed_turns(turns)
