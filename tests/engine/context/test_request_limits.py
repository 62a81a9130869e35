"""Counts and sizes of what one question sends: exactly at the limit, and one beyond it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.context import build, secret_content
from counsel.errors import FileTooLarge, InvalidArgument
from counsel.requests import ChatRequest


def question(*files: str, images: tuple[str, ...] = ()) -> ChatRequest:
    return ChatRequest(prompt="Look.", model="gpt-5", files=files, images=images)


@pytest.fixture
def texts(project: Path) -> tuple[str, str]:
    for name in ("a.txt", "b.txt"):
        (project / name).write_text("line\n")
    return str(project / "a.txt"), str(project / "b.txt")


def test_files_may_fill_the_limit_together_but_not_exceed_it(
    caller: Callable[..., Caller], texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build.build(question(*texts), caller())
    size = sum(part.end - part.start for part in context.parts)
    monkeypatch.setattr(build, "MAX_TOTAL", size)
    assert build.build(question(*texts), caller()).prompt == context.prompt
    monkeypatch.setattr(build, "MAX_TOTAL", size - 1)
    with pytest.raises(FileTooLarge) as excinfo:
        build.build(question(*texts), caller())
    assert excinfo.value.fields["file"].endswith("b.txt")


def test_parts_have_the_positions_of_the_files(caller: Callable[..., Caller], texts: tuple[str, str]) -> None:
    context = build.build(question(f"{texts[0]}{{1:1}}", texts[1]), caller())
    first, second = (context.prompt[part.start : part.end] for part in context.parts)
    assert first.startswith('<file path="')
    assert "a.txt" in first
    assert "b.txt" in second
    assert first.endswith("</file>")
    assert second.endswith("</file>")
    assert context.prompt == f"Look.\n\n<files>\n{first}\n{second}\n</files>"
    assert context.plain == "Look."
    assert context.parts[0].key.endswith("a.txt{1-1}") or context.parts[0].key.endswith("a.txt{1}")
    assert [str(path).rpartition("/")[2] for path in context.files] == ["a.txt", "b.txt"]
    assert context.ranges[1] == ""
    assert context.ranges[0]


def test_a_file_requested_twice_is_sent_once_and_whole_if_any_request_is_for_all_of_it(
    caller: Callable[..., Caller], texts: tuple[str, str]
) -> None:
    assert len(build.build(question(texts[0], texts[0]), caller()).sources) == 1
    both = build.build(question(f"{texts[0]}{{1:1}}", texts[0]), caller())
    assert (len(both.files), both.ranges) == (1, ("",))


def test_as_many_files_as_the_setting_says_and_no_more(
    caller: Callable[..., Caller], texts: tuple[str, str]
) -> None:
    limit_two, limit_one = caller(COUNSEL_MAX_FILES="2"), caller(COUNSEL_MAX_FILES="1")
    assert len(build.build(question(*texts), limit_two).sources) == 2
    with pytest.raises(InvalidArgument, match="2 files are too many; the limit is 1"):
        build.build(question(*texts), limit_one)
    with pytest.raises(InvalidArgument, match="2 images are too many; the limit is 1"):
        build.build(question(images=texts), caller(COUNSEL_MAX_IMAGES="1"))


HEADER = "-----BEGIN PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("body", "is_key"),
    [
        ("A" * 32, True),  # in one piece
        ("A" * 31, False),
        ("." * 431 + "A" * 32, True),
        ("." * 432 + "A" * 32, False),  # far from its header: not its body
        ("x1Y2z3W4\n" * 7 + "a9B8c7D6", True),  # short pieces that look random only together
        ("x1Y2z3W4\n" * 6 + "a9B8c7D", False),
        ("aaaaaaaa\n" * 8, False),
        ("Example1\nx1Y2z3W4\n" * 4, False),
        ("", False),
        ("\\nabcdefghijklmnopqrstuvwxyz0123456789", True),
    ],
)
def test_a_private_key_is_a_header_with_a_body(body: str, is_key: bool) -> None:
    assert secret_content.private_key(f"{HEADER}{body}\n-----END PRIVATE KEY-----") is is_key


@pytest.mark.parametrize(("times", "is_key"), [(1, True), (2, True), (3, True), (4, False)])
def test_a_key_is_found_inside_base64_up_to_three_times(times: int, is_key: bool) -> None:
    text = f"{HEADER}{'x1Y2z3W4' * 8}\n-----END PRIVATE KEY-----\n"
    for _ in range(times):
        text = base64.b64encode(text.encode()).decode()
    assert secret_content.encoded_key(text) is is_key
    wrapped = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    assert secret_content.encoded_key(f"data:\n  {wrapped}\n") is is_key


def test_base64_that_is_not_an_image_is_refused_and_named(caller: Callable[..., Caller]) -> None:
    value = base64.b64encode(b"no picture at all, and longer than any path may be. " * 200).decode()
    with pytest.raises(InvalidArgument, match=r"image 1 \(base64\) is neither a file that exists nor a PNG"):
        build.build(question(images=(value,)), caller())
    with pytest.raises(InvalidArgument, match=r"^2 files cannot be sent"):
        build.build(
            question(images=(value, "iVBORw0KGgo" + "A" * 5_000)), caller(COUNSEL_MAX_IMAGE_BYTES="100000")
        )
