"""Answers as Markdown: what a terminal shows while the text streams, and when it has ended."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyte
import pytest

from counsel.cli.terminal import live_region, markdown
from counsel.cli.terminal.live_region import LiveRegion, row
from counsel.cli.terminal.markdown import MarkdownStream

ANSWER = """\
# Is this regex safe?

No. It **backtracks** on `aaaa!`, see [the docs](https://docs.python.org/3/library/re.html) and <https://example.com/x>.
A generic List<String> and a formula \\( a_1 * b \\) stay as they are.

Steps:
1. First do this
1. Then *that*, which is longer than the others, so that it wraps in a window of eighty columns
   - nested one
   - nested two

     with a paragraph
1. Third

> A quote that
> has two lines

```python
def safe(text: str) -> bool:
    \"\"\"Does it match?\"\"\"
    return bool(re.fullmatch(r"a+b", text))
```

| model | price | notes |
|:------|------:|-------|
| gpt-5 | 1.25 | fast, with 漢字 in it |
| opus  | 15.00 | slow, but careful with long explanations that wrap inside the cell of the table |

---
The last line[^1] 👍
"""
RENDERED = """\
Is this regex safe?

No. It backtracks on aaaa!, see the docs
(https://docs.python.org/3/library/re.html) and https://example.com/x.
A generic List<String> and a formula \\( a_1 * b \\) stay as they are.

Steps:
1. First do this
2. Then that, which is longer than the others, so that it wraps in a window of
   eighty columns
   • nested one
   • nested two

     with a paragraph
3. Third

│ A quote that
│ has two lines

```python
def safe(text: str) -> bool:
    \"\"\"Does it match?\"\"\"
    return bool(re.fullmatch(r"a+b", text))
```

model   price   notes
───────────────────────────────────────────────────────────────────────────────
gpt-5    1.25   fast, with 漢字 in it
opus    15.00   slow, but careful with long explanations that wrap inside the
                cell of the table

───────────────────────────────────────────────────────────────────────────────
The last line[^1] 👍"""


class Window:
    """A terminal of a given size, and how many bytes were written to it."""

    def __init__(self, columns: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.01)
        self._stream = pyte.Stream(self.screen)
        self._patch = monkeypatch
        self.written = 0
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        size = live_region.shutil.os.terminal_size((columns, rows))  # type: ignore[attr-defined]
        self._patch.setattr("shutil.get_terminal_size", lambda *_, **__: size)

    def write(self, data: str) -> None:
        self.written += len(data)
        self._stream.feed(data.replace("\n", "\r\n"))

    def flush(self) -> None:
        pass

    def lines(self) -> list[str]:
        top = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        rows = [line.rstrip() for line in (*top, *self.screen.display)]
        while rows and not rows[-1]:
            rows.pop()
        return rows


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Window:
    return Window(80, 24, monkeypatch)


def pieces(text: str, size: int) -> Iterator[str]:
    yield from (text[at : at + size] for at in range(0, len(text), size))


def show(window: Window, text: str, size: int) -> None:
    stream, region = MarkdownStream(), LiveRegion(window)  # type: ignore[arg-type]
    for piece in pieces(text, size):
        stream.add(piece)
        region.draw(*stream.frame(*live_region.window()))
    region.draw(stream.frame(*live_region.window(), ended=True).finished)


def plain(text: str, columns: int = 79) -> list[str]:
    return [row.text for row in markdown.rows(text, columns)]


def test_a_whole_answer() -> None:
    assert plain(ANSWER) == RENDERED.split("\n")


@pytest.mark.parametrize(("size", "rows"), [(3, 5), (7, 24), (50, 5), (100, 100), (10_000, 24)])
def test_a_streamed_answer_ends_as_the_whole_one_and_every_row_is_there_once(
    window: Window, size: int, rows: int
) -> None:
    window.resize(80, rows)
    show(window, ANSWER, size)
    assert window.lines() == RENDERED.split("\n")


def test_finished_blocks_are_written_once(window: Window) -> None:
    """A redrawn answer costs the square of its length."""
    paragraphs = "\n\n".join(f"This is paragraph {number} of a long answer." for number in range(100))
    show(window, paragraphs, 9)
    assert window.written < 20 * len(paragraphs)
    assert [line for line in window.lines() if line] == [line for line in paragraphs.split("\n") if line]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"line_{number} = {number}\n" for number in range(200)).join(["```python\n", "```\n"]),
        "".join(f"{number}. item\n" for number in range(1, 200)),
        "| a | b |\n|---|---|\n" + "".join(f"| {number} | x |\n" for number in range(100)),
        " ".join(f"word{number}" for number in range(600)),
    ],
    ids=["code", "list", "table", "paragraph"],
)
def test_a_block_longer_than_the_window_is_complete_in_the_end(window: Window, text: str) -> None:
    show(window, text, 40)
    assert window.lines() == plain(text)


def test_code_longer_than_the_window_scrolls_while_it_is_written(window: Window) -> None:
    stream, region = MarkdownStream(), LiveRegion(window)  # type: ignore[arg-type]
    for number in range(100):
        stream.add(f"{'```' if not number else f'line {number}'}\n")
        region.draw(*stream.frame(*live_region.window()))
    assert window.lines() == ["```", *(f"line {number}" for number in range(1, 100))]


def test_a_window_that_becomes_wider_gets_no_second_copy(window: Window) -> None:
    stream, region = MarkdownStream(), LiveRegion(window)  # type: ignore[arg-type]
    words = " ".join(f"word{number}" for number in range(60))
    stream.add(words)
    region.draw(*stream.frame(*live_region.window()))
    window.resize(120, 30)
    stream.add(" and more")
    region.draw(*stream.frame(*live_region.window()))
    region.draw(stream.frame(*live_region.window(), ended=True).finished)
    assert " ".join(window.lines()) == f"{words} and more"


def test_rows_that_a_narrower_window_wraps_are_counted(window: Window) -> None:
    stream = io.StringIO()
    region = LiveRegion(stream)
    region.draw([], [row("x" * 70), row("y" * 70)])
    window.resize(40, 24)  # terminals now show four rows
    region.clear()
    assert stream.getvalue().rsplit("\r", 1)[1].startswith("\x1b[3A")


def test_a_narrower_window_keeps_what_is_above_the_answer(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """xterm, like pyte, cuts rows off and wraps nothing: there is nothing to move up over."""
    monkeypatch.setenv("XTERM_VERSION", "XTerm(390)")
    window.write("$ an earlier command\n" * 10)
    stream, region = MarkdownStream(), LiveRegion(window)  # type: ignore[arg-type]
    words = [f"word{number}" for number in range(60)]
    for number, word in enumerate(words):
        if number == 40:
            window.resize(40, 24)
        stream.add(f"{word} ")
        region.draw(*stream.frame(*live_region.window()))
    region.draw(stream.frame(*live_region.window(), ended=True).finished)
    above, answer = window.lines()[:10], window.lines()[10:]
    assert above == ["$ an earlier command"] * 10
    assert answer == plain(" ".join(words), 39)


def test_a_frame_that_meets_a_narrower_window_is_drawn_over_as_a_whole(window: Window) -> None:
    """The window can change between the making of a frame and its writing: the terminal wraps its rows."""
    region = LiveRegion(window)  # type: ignore[arg-type]
    window.write("$ an earlier command\n")
    region.draw([])
    window.resize(40, 24)
    region.draw([], [row("x" * 70), row("status")])
    region.draw([], [row("y" * 30), row("status")])
    region.draw([row("the end")])
    assert window.lines() == ["$ an earlier command", "the end"]


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_nothing_in_an_answer_commands_the_terminal(window: Window, size: int) -> None:
    evil = "a\x1b]0;owned\x07b \x9b2J `\x1b[31m` &#27;[2J &#x1b;c &#13;over [x](http://e.com/\x1b[2J)\n\n```\x1b[31m\n\x1b[2J\n```\n"
    lines = [part.text for part in markdown.rows(evil, 79)]
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in "".join(lines))
    show(window, evil, size)
    assert "owned" in window.lines()[0]
    assert window.screen.title == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<details>\n<summary>x</summary>\n", ["<details>", "<summary>x</summary>"]),
        ("a Vec<T> and <b>bold</b>", ["a Vec<T> and <b>bold</b>"]),
        ("\\[ x^2 \\] and \\*", ["\\[ x^2 \\] and *"]),
        ("one\ntwo", ["one", "two"]),
        ("![a cat](https://e.com/cat.png)", ["a cat (https://e.com/cat.png)"]),
        ("[bank.com](https://evil.example/)", ["bank.com (https://evil.example/)"]),
        ("[text][1]\n\n[1]: https://e.com/x\n", ["text (https://e.com/x)"]),
        ("* a\n\n* b", ["• a", "", "• b"]),
        ("- a\n  ```sh\n  ls\n  ```\n- b", ["• a", "  ```sh", "  ls", "  ```", "• b"]),
        ("5. a\n5. b\n", ["5. a", "6. b"]),
        ("```\n\n\ntwo empty lines above\n```", ["```", "", "", "two empty lines above", "```"]),
        ("```", ["```"]),
        ("-", ["•"]),
        ("", []),
        ("### ~~gone~~ **`code`**", ["gone code"]),
        ("漢字" * 30, ["漢字" * 19 + "漢", "字" + "漢字" * 10]),
    ],
)
def test_nothing_of_the_text_is_lost(text: str, expected: list[str]) -> None:
    assert plain(text) == expected


def test_a_numbered_list_counts_on_when_its_items_arrive_one_by_one(window: Window) -> None:
    show(window, "".join("1. item\n" for _ in range(40)), 8)
    assert window.lines() == [f"{number}. item" for number in range(1, 41)]


@pytest.mark.parametrize(
    "text",
    ["x" * 100_000, "word " * 20_000, "[" * 5_000, "> " * 5_000 + "deep", "```\n" + "code\n" * 20_000],
    ids=["one-word", "one-paragraph", "brackets", "quotes", "code"],
)
@pytest.mark.parametrize("size", [20_000, 40_000])
def test_a_block_without_end_is_shown_in_parts(text: str, size: int) -> None:
    stream = MarkdownStream()
    rows = []
    for piece in pieces(text, size):
        stream.add(piece)
        finished, live = stream.frame(79, 20)
        rows += finished
        assert len(live) <= 20
        assert len(stream._text) < 60_000
    output_text = "".join(part.text for part in [*rows, *stream.frame(79, 20, ended=True).finished])
    for char in set(text) - set(" \n`>"):
        assert output_text.count(char) == text.count(char)
