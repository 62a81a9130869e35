"""The Ask screen: questions, live answers, conversations."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from counsel.models import embedded
from fake import FakeProcess
from support.accessibility import violations
from support.browser import OTHER_NAME, TOKEN, Console

WORDS = " ".join(f"word-{number:04}" for number in range(600))  # every word once
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
PASTE = """([data, type, name]) => {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const clipboard = new DataTransfer();
    clipboard.items.add(new File([bytes], name, { type }));
    const paste = new ClipboardEvent('paste', { clipboardData: clipboard, bubbles: true, cancelable: true });
    document.getElementById('composer').dispatchEvent(paste);
}"""

DROP = """([text, name]) => {
    const dropped = new DataTransfer();
    dropped.items.add(new File([text], name, { type: 'text/plain' }));
    const target = document.querySelector('[aria-label=Messages]');
    target.dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, bubbles: true, cancelable: true }));
}"""
# Answers through the fake vendor, in place of the model's own runtime.
RUNTIME = """
from types import SimpleNamespace

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams = SimpleNamespace(), SimpleNamespace()

class Server:
    listening_address = {address!r}
    def __init__(self, parameters):
        pass
"""


def ask(page: Page, question: str) -> None:
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    return page.locator(".answer .markdown")


def pick(page: Page, model: str) -> None:
    page.get_by_label("Find a model or an agent").fill(model)
    expect(options(page).first).to_contain_text(model)  # the list may still be on its way
    page.keyboard.press("Enter")


def options(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Models and agents").get_by_role("option")


def expect_finished(page: Page, number: int = 1) -> None:
    """Expect that this many answers have ended."""
    expect(page.get_by_role("button", name="Ask again with")).to_have_count(number)


def words_of(page: Page) -> list[str]:
    expect(answers(page).last).to_contain_text("word-0599")
    return re.findall(r"word-\d{4}", answers(page).last.inner_text())


def half_an_answer(vendors: FakeProcess, gate: str) -> None:
    vendors.script(text=WORDS, deltas=20, gate=gate, gate_after=10)


def test_an_answer_appears_while_it_is_written_and_is_kept(console: Console) -> None:
    page = console.open("#/ask")
    console.vendors.script(
        text="# Tides\n\nHigh **water**.\n\n```python\nprint(1)\n```\n",
        usage={"input": 1200, "output": 34},
        deltas=6,
        gate="rest",
        gate_after=3,
    )
    ask(page, "When is high water?")
    expect(answers(page).get_by_role("heading", name="Tides")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    console.vendors.open_gate("rest")
    expect_finished(page)
    expect(answers(page).locator("strong")).to_have_text("water")
    expect(answers(page).locator(".hljs-built_in")).to_have_text("print")
    expect(page.locator(".answer footer")).to_contain_text(re.compile(r"\$0\.\d+ · 1,200 in, 34 out · .*gpt"))
    page.get_by_role("button", name="Copy the code").click()
    expect(page.get_by_text("Code copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == "print(1)"
    links = page.get_by_role("navigation", name="Conversations").get_by_role("link")
    expect(links).to_contain_text("When is high water?")

    # A conversation goes on, is found by its words, exported, and deleted after a question.
    console.vendors.script(text="At six.", thinking="Let me see.", gate="six", gate_after=0)
    ask(page, "And low water?")
    expect(page.get_by_text("Waiting for")).to_be_visible()
    console.vendors.wait_for(contains="And low water?")
    console.vendors.open_gate("six")
    expect_finished(page, 2)
    expect(answers(page).last).to_have_text("At six.")
    expect(page.get_by_text("Let me see.")).to_be_hidden()
    page.get_by_text("Thinking", exact=True).click()
    expect(page.get_by_text("Let me see.")).to_be_visible()
    page.reload()  # it is stored with the job
    expect_finished(page, 2)
    page.get_by_role("button", name="Thinking").click()
    expect(page.get_by_text("Let me see.")).to_be_visible()
    expect(answers(page).last).to_have_text("At six.")
    page.get_by_label("Search conversations").fill("nothing-has-this")
    expect(page.get_by_text("No conversation matches.")).to_be_visible()
    page.get_by_label("Search conversations").fill("tides")
    expect(links).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as ZIP").click()
    assert download.value.suggested_filename.endswith(".zip")
    page.get_by_role("button", name="Delete the conversation").click()
    # A message is in front of the dialog that is open, and can be used.
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy the command").click()
    expect(dialog.get_by_text("Command copied")).to_be_visible()
    dialog.get_by_role("button", name="Dismiss").last.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    expect(links).to_have_count(0)


def test_a_reload_while_an_answer_is_written_loses_and_repeats_no_word(console: Console) -> None:
    page = console.open("#/ask")
    half_an_answer(console.vendors, "rest")
    ask(page, "All words, please?")
    expect(answers(page)).to_contain_text("word-0200")
    expect(page).to_have_url(re.compile(r"#/ask/conv_"))
    links = page.get_by_role("navigation", name="Conversations").get_by_role("link")
    expect(links).to_contain_text("All words, please?")
    second_tab = console.watched(page.context.new_page())
    second_tab.goto(page.url)  # a second tab joins
    page.reload()
    for tab in (page, second_tab):
        expect(tab.locator(".bubble")).to_have_text("All words, please?")
        expect(answers(tab)).to_contain_text("word-0200")
    console.vendors.open_gate("rest")
    for tab in (page, second_tab):
        expect_finished(tab)
        assert words_of(tab) == WORDS.split()
    # What is asked in one tab is seen in the other.
    ask(second_tab, "Seen by both?")
    expect_finished(page, 2)
    expect(answers(page).last).to_contain_text("says: Seen by both?")
    assert len(console.vendors.calls) == 2


def test_a_killed_server_costs_no_word_of_an_answer(console: Console) -> None:
    page = console.open("#/ask")
    half_an_answer(console.vendors, "never")
    console.vendors.script(text=WORDS, deltas=20)
    ask(page, "All words, please?")
    expect(answers(page)).to_contain_text("word-0200")
    console.kill_and_restart()
    expect_finished(page)
    assert words_of(page) == WORDS.split()
    assert len(console.vendors.calls) == 2
    page.reload()
    expect_finished(page)
    assert words_of(page) == WORDS.split()


def test_an_image_and_a_file_reach_the_model(console: Console) -> None:
    page = console.open("#/ask")
    notes = console.home / "notes.md"
    notes.write_text("The tide table says noon.")
    page.get_by_label("Your question").focus()
    page.evaluate(PASTE, [PIXEL, "image/png", "pasted.png"])
    page.evaluate(PASTE, [PIXEL, "image/svg+xml", "drawing.svg"])
    attachments = page.get_by_role("list", name="Attached")
    expect(attachments).to_contain_text("Models read PNG, JPEG, GIF and WebP, not svg+xml.")
    page.get_by_label("Your question").fill("What is this?")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_role("button", name="Remove drawing.svg").click()
    page.get_by_label("Files and images").set_input_files(notes)
    page.evaluate(DROP, ["Low tide at six.", "dropped.txt"])
    expect(attachments.get_by_role("listitem")).to_have_count(3)
    expect(page.get_by_text("Uploading")).to_have_count(0)
    page.get_by_role("button", name="Send").click()
    expect_finished(page)
    (request,) = console.vendors.calls
    assert f"data:image/png;base64,{PIXEL}" in str(request["body"])
    assert "The tide table says noon." in str(request["body"])
    assert "Low tide at six." in str(request["body"])
    # After a reload the image comes from the server.
    page.reload()
    expect_finished(page)
    thumbnail = page.get_by_role("button", name="Enlarge image 1")
    expect(thumbnail.locator("img")).to_have_attribute("src", re.compile(r"^blob:"))
    assert thumbnail.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    expect(page.locator(".bubble li")).to_have_text(["notes.md", "dropped.txt"])
    thumbnail.click()
    expect(page.get_by_role("dialog").get_by_role("img")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog img').naturalWidth") == 1


def test_a_question_without_an_answer_is_not_lost(console: Console) -> None:
    console.vendors.script(status=401)
    page = console.open("#/ask")
    page.get_by_role("button", name="Model: auto").click()
    pick(page, "gpt-5")
    page.evaluate(PASTE, [PIXEL, "image/png", "pasted.png"])
    page.get_by_label("Files and images").set_input_files(
        {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"the notes: alpha"}
    )
    ask(page, "Which key is wrong?")  # it waits for its file
    expect_finished(page)
    page.goto(f"{console.url}/#/ask")
    links = page.get_by_role("navigation", name="Conversations").get_by_role("link")
    expect(links).to_contain_text("Which key is wrong?")
    expect(links).to_contain_text("no answer")
    page.get_by_label("Search conversations").fill("KEY is wrong")
    expect(links).to_have_count(1)
    links.click()
    expect(page.locator(".bubble")).to_contain_text("Which key is wrong?")
    expect(page.get_by_role("alert")).to_contain_text("AUTHENTICATION_FAILED")
    page.get_by_role("button", name="Ask again with").click()
    pick(page, "gpt-5.5")
    expect_finished(page, 2)
    body = str(console.vendors.calls[-1]["body"])
    assert PIXEL in body
    assert "the notes: alpha" in body
    expect(links).not_to_contain_text("no answer")


def test_from_another_machine_without_tls_everything_works(console: Console) -> None:
    """Such a page is no secure context: the browser adds no `Sec-Fetch-Site`, and has no clipboard for scripts."""
    page = console.new_page(signed_in=False)
    page.goto(f"http://{OTHER_NAME}:{console.port}/login#{TOKEN}")
    expect(page.get_by_label("Your question")).to_be_visible()
    assert page.evaluate("isSecureContext") is False
    half_an_answer(console.vendors, "rest")
    page.evaluate(PASTE, [PIXEL, "image/png", "pasted.png"])
    expect(page.get_by_role("button", name="Remove pasted.png")).to_be_visible()
    ask(page, "All words, please?")
    expect(answers(page)).to_contain_text("word-0200")  # live
    page.reload()
    expect(answers(page)).to_contain_text("word-0200")
    image = page.get_by_role("button", name="Enlarge image 1").locator("img")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    console.vendors.open_gate("rest")
    expect_finished(page)
    assert words_of(page) == WORDS.split()
    page.get_by_role("button", name="Copy the answer").click()
    expect(page.get_by_text("Answer copied")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as ZIP").click()
    assert download.value.suggested_filename.endswith(".zip")
    assert all(
        "Cross-Origin-Opener-Policy" in error for error in console.errors
    )  # the browser ignores it there
    console.errors.clear()


def test_a_large_file_shows_how_much_of_it_has_been_sent(console: Console) -> None:
    page = console.open("#/ask")
    slow = page.context.new_cdp_session(page)
    slow.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000}
    slow.send("Network.emulateNetworkConditions", limits)
    content = b"0123456789abcdef" * 100_000
    page.get_by_label("Files and images").set_input_files(
        {"name": "large.txt", "mimeType": "text/plain", "buffer": content}
    )
    expect(page.get_by_role("list", name="Attached")).to_contain_text(re.compile(r"[1-9]\d?% of"))
    expect(page.get_by_role("progressbar", name="Upload of large.txt")).to_be_visible()
    page.get_by_role("button", name="Remove large.txt").click()  # while it is sent
    expect(page.get_by_role("list", name="Attached")).to_have_count(0)
    slow.send("Network.emulateNetworkConditions", {**limits, "uploadThroughput": -1})
    page.get_by_label("Files and images").set_input_files(
        {"name": "large.txt", "mimeType": "text/plain", "buffer": content}
    )
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.get_by_role("list", name="Attached")).to_contain_text("large.txt")


def test_an_answer_is_stopped_and_asked_again_of_another_model(console: Console) -> None:
    page = console.open("#/ask")
    half_an_answer(console.vendors, "never")
    ask(page, "All words, please?")
    expect(answers(page)).to_contain_text("word-0200")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(answers(page)).to_contain_text("word-0200")
    console.vendors.wait_for(state="disconnected")
    page.reload()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(answers(page)).to_contain_text("word-0200")

    page.get_by_role("button", name="Ask again with").click()
    dialog = page.get_by_role("dialog", name="Ask again with")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("claude-opus-5-5")
    page.keyboard.press("Enter")
    expect_finished(page, 2)
    expect(answers(page).last).to_contain_text("claude-opus-5-5 says: All words, please?")

    # A failure says what happened and what to do; its code is there, too.
    console.vendors.script(status=401)
    page.get_by_role("button", name="Model: auto").click()
    page.get_by_label("Find a model or an agent").fill("gpt-5")
    expect(options(page).first).to_contain_text("per 1M")
    page.get_by_label("Find a model or an agent").fill("grok-4.7")
    expect(options(page)).to_contain_text("Set XAI_API_KEY")
    pick(page, "gpt-5")
    ask(page, "Now?")
    expect_finished(page, 3)
    expect(page.get_by_role("alert")).to_contain_text("OpenAI refused the key")
    expect(page.get_by_role("alert")).to_contain_text("Check OPENAI_API_KEY")
    expect(page.get_by_role("alert")).to_contain_text("AUTHENTICATION_FAILED")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("OpenAI refused the key")
    expect(page.get_by_role("button", name="Model: gpt-5")).to_be_visible()


def test_everything_is_done_with_the_keyboard(console: Console) -> None:
    page = console.open("#/ask")
    expect(page.get_by_role("list", name="Examples")).to_be_visible()
    page.locator("body").press("/")
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.type("First line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second line")
    expect(page.get_by_label("Your question")).to_have_value("First line\nsecond line")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Model: auto")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("claude-haiku")
    expect(options(page).first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options(page).nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Model: claude-haiku-5-5")).to_be_focused()
    expect(page.locator("code", has_text="counsel ask -m claude-haiku-5-5")).to_be_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect_finished(page)
    assert console.vendors.calls[0]["model"] == "claude-haiku-5-5"
    expect(page.locator(".bubble")).to_contain_text("second line")
    page.keyboard.press("Control+k")
    page.get_by_label("Find an action").fill("delete this conversation")
    expect(page.get_by_role("listbox", name="Actions").get_by_role("option")).to_contain_text(
        "counsel conversations delete conv_"
    )
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Delete this conversation?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_without_any_key_the_embedded_model_is_offered_and_answers(console: Console) -> None:
    console.env = {name: value for name, value in console.env.items() if not name.endswith("_API_KEY")}
    console.env |= {
        "PIP_NO_INDEX": "1",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
    }  # nothing is downloaded in tests
    console.kill_and_restart()
    page = console.open("#/ask")
    offer = page.get_by_role("region", name="Embedded model")
    expect(offer).to_contain_text("often wrong")
    expect(page.get_by_role("list", name="Examples")).to_have_count(0)
    assert violations(page) == []
    offer.get_by_role("button", name="Download the tiny model").click()
    expect(offer.get_by_role("alert")).to_contain_text("PROVIDER_UNAVAILABLE")
    package = embedded.folder(console.counsel_home) / "lib" / "xllamacpp"  # now it is available
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(RUNTIME.format(address=console.vendors.url))
    offer.get_by_role("button", name="Download the tiny model").click()
    expect(offer).to_contain_text("tiny · often wrong")
    page.get_by_role("button", name="Decide").click()
    page.keyboard.press("Enter")
    expect_finished(page)
    expect(answers(page)).to_contain_text("smollm2 says: A team of four")
    expect(page.locator(".answer h2")).to_contain_text("tiny · often wrong")


RICH = """# One

### Three

- [x] done
- a list

| a | b |
|---|---|
| 1 | 2 |

```python
def long(): return "%s"
```

> quoted [link](https://example.com) and `code`
""" % ("x" * 300)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_screen_has_no_accessibility_problem_and_never_scrolls_sideways(
    console: Console, theme: str
) -> None:
    page = console.new_page(theme=theme)
    assert violations(page) == []
    console.vendors.script(text=RICH, thinking="hm")
    ask(page, "Everything, please? " + "unbroken" * 60)
    expect_finished(page)
    console.vendors.script(status=401)
    page.get_by_role("button", name="Model: auto").click()
    page.get_by_label("Find a model or an agent").fill("gpt-5")
    assert violations(page) == []
    page.keyboard.press("Enter")
    page.evaluate(PASTE, [PIXEL, "image/bmp", "old.bmp"])
    page.get_by_role("button", name="Remove old.bmp").focus()
    assert violations(page) == []
    page.keyboard.press("Enter")
    ask(page, "Again?")
    expect_finished(page, 2)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(
            "document.querySelector('.scroll').scrollWidth <= document.querySelector('.scroll').clientWidth"
        )
    page.get_by_role("button", name="Show conversations").click()
    expect(page.get_by_label("Search conversations")).to_be_visible()
    assert violations(page) == []
