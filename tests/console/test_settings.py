"""The settings screen: keys that are used and never shown, settings that the API validates, aliases, this browser."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import Console

KEY = "sk-ant-api03-typed-in-the-page-and-shown-nowhere-0123456789"


@pytest.fixture
def settings(console: Console) -> Console:
    """A person without a key of Anthropic's."""
    console.stop()
    console.env["ANTHROPIC_API_KEY"] = ""
    (console.counsel_home.parent / "serve.log").write_text("")  # the new port is read from it
    console.start()
    return console


def config(console: Console) -> dict[str, Any]:
    file = console.counsel_home / "config.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


def everything_on(page: Page) -> str:
    """The page as HTML, and what its fields contain."""
    values = page.evaluate(
        "[...document.querySelectorAll('input, textarea')].map((field) => field.value).join()"
    )
    return f"{page.content()}\n{values}"


def expect_refusals(console: Console) -> None:
    """Remove the browser's reports of refusals by the API, at the end of a test."""
    reports = [error for error in console.errors if error.startswith("Failed to load resource")]
    console.errors[:] = [error for error in console.errors if error not in reports]


def test_a_key_is_stored_used_and_removed_but_never_shown(settings: Console) -> None:
    page = settings.open("#/settings")
    row = page.get_by_role("region", name="Keys").get_by_role("listitem").filter(has_text="Anthropic")
    expect(row.get_by_text("not set")).to_be_visible()
    button = page.get_by_role("button", name="Set the key of Anthropic")
    button.press("Enter")
    dialog = page.get_by_role("dialog", name="Set the key of Anthropic")
    expect(dialog.get_by_text("counsel keys set anthropic")).to_be_visible()
    field = dialog.get_by_label("Key", exact=True)
    expect(field).to_have_attribute("type", "password")

    settings.vendors.set(keys=["another-key"])
    field.fill(KEY)
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("does not accept this key")
    settings.vendors.set(keys=[KEY])
    with page.expect_response(lambda answer: answer.url.endswith("/api/keys/anthropic")) as response:
        page.keyboard.press("Enter")
    assert response.value.status == 200
    assert KEY not in response.value.text()
    expect(page.get_by_text("The key of Anthropic is stored.")).to_be_visible()
    expect(page.get_by_text("Anthropic accepts it.")).to_be_visible()
    expect(row.get_by_text("set in .env")).to_be_visible()
    expect(page.get_by_role("button", name="Replace the key of Anthropic")).to_be_focused()
    file = settings.counsel_home / ".env"
    assert KEY in file.read_text()
    assert file.stat().st_mode & 0o077 == 0

    status = page.evaluate(
        """async () => (await fetch('/api/jobs', { method: 'POST', body: JSON.stringify({ model: 'opus-latest', prompt: 'hello' }),
            headers: { 'x-counsel': '1', 'content-type': 'application/json' } })).status"""
    )
    assert status in {200, 202}
    request = settings.vendors.wait_for(vendor="anthropic", contains="hello", state="finished")[0]
    assert KEY in str(request["headers"])

    for path in ("settings", "keys", "doctor", "models"):
        assert KEY not in page.evaluate("async (path) => (await fetch(`/api/${path}`)).text()", path)
    assert KEY not in everything_on(page)
    page.reload()
    expect(row.get_by_text("set in .env")).to_be_visible()
    assert KEY not in everything_on(page)

    page.get_by_role("button", name="Remove the key of Anthropic").click()
    expect(row.get_by_text("not set")).to_be_visible()
    assert KEY not in file.read_text()
    expect_refusals(settings)


def test_a_setting_is_saved_undone_and_reset_and_an_invalid_one_has_its_error_beside_it(
    console: Console,
) -> None:
    page = console.open("#/settings")
    form = page.get_by_role("form", name="max_files")
    field = form.get_by_role("textbox")
    field.fill("0")
    expect(form.get_by_text("counsel config set max_files 0")).to_be_visible()
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("max_files")
    expect(form.get_by_role("alert")).to_contain_text("INVALID_ARGUMENT")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert config(console) == {}
    field.fill("7")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("max_files is 7.")).to_be_visible()
    expect(form.get_by_text("config.toml")).to_be_visible()
    expect(form.get_by_role("alert")).to_have_count(0)
    assert config(console) == {"max_files": 7}
    page.get_by_role("button", name="Undo").click()
    expect(form.get_by_text("default", exact=True)).to_be_visible()
    assert config(console) == {}

    page.get_by_role("switch", name="summaries").press("Space")
    expect(page.get_by_text("summaries is true.")).to_be_visible()
    page.get_by_role("combobox", name="Reasoning effort").select_option("high")
    expect(page.get_by_text("default_effort is high.")).to_be_visible()
    panel = page.get_by_role("form", name="Consensus panel")
    panel.get_by_role("textbox").fill("gpt-latest, opus-latest")
    expect(panel.get_by_text("counsel config set consensus_models gpt-latest,opus-latest")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("consensus_models is gpt-latest, opus-latest.")).to_be_visible()
    new_settings = {
        "summaries": True,
        "default_effort": "high",
        "consensus_models": ["gpt-latest", "opus-latest"],
    }
    assert config(console) == new_settings
    page.reload()
    expect(panel.get_by_role("textbox")).to_have_value("gpt-latest, opus-latest")
    page.get_by_role("button", name="Use the default of summaries").click()
    expect(page.get_by_role("switch", name="summaries")).not_to_be_checked()

    page.get_by_role("searchbox", name="Search settings").fill("largest pdf")
    expect(page.get_by_role("form", name="max_pdf_bytes")).to_be_visible()
    expect(form).to_have_count(0)
    idle_form = page.get_by_role("form", name="daemon_idle_seconds")
    page.get_by_role("searchbox", name="Search settings").fill("daemon idle")
    expect(idle_form.get_by_role("textbox")).to_be_disabled()  # the environment wins
    expect(idle_form).to_contain_text("Unset COUNSEL_DAEMON_IDLE_SECONDS")
    expect_refusals(console)


def test_an_alias_is_added_refused_removed_and_restored(console: Console) -> None:
    page = console.open("#/settings")
    form = page.get_by_role("form", name="New alias")
    form.get_by_role("textbox", name="Alias").fill("quick")
    form.get_by_label("Model of the alias").fill("no-such-model")
    page.keyboard.press("Enter")
    aliases = page.get_by_role("region", name="Aliases")
    expect(aliases.get_by_role("alert")).to_contain_text("no-such-model")
    form.get_by_label("Model of the alias").fill("gpt-5-nano")
    expect(aliases.get_by_text("counsel config set aliases.quick gpt-5-nano")).to_be_visible()
    page.keyboard.press("Enter")
    expect(aliases.get_by_role("listitem")).to_contain_text("quick")
    assert config(console) == {"aliases": {"quick": "gpt-5-nano"}}
    aliases.get_by_role("button", name="Remove the alias quick").click()
    expect(aliases.get_by_role("listitem")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(aliases.get_by_role("listitem")).to_have_count(1)
    assert config(console) == {"aliases": {"quick": "gpt-5-nano"}}
    expect_refusals(console)


def test_a_panel_is_added_changed_undone_and_removed(console: Console) -> None:
    file = console.counsel_home / "config.toml"
    file.write_text('[panels]\nroles = [{model = "opus-latest", stance = "for"}, "gpt-5"]\n')
    page = console.open("#/settings")
    panels = page.get_by_role("region", name="Panels")
    expect(panels.get_by_role("listitem")).to_contain_text("opus-latest (for), gpt-5")
    expect(panels.get_by_role("button", name="Change the panel roles")).to_have_count(
        0
    )  # a line cannot say it
    form = page.get_by_role("form", name="New panel")
    form.get_by_role("textbox", name="Panel", exact=True).fill("architecture")
    form.get_by_label("Models of the panel").fill("opus-latest, no-such-model")
    page.keyboard.press("Enter")
    expect(panels.get_by_role("alert")).to_contain_text("no-such-model")
    form.get_by_label("Models of the panel").fill("opus-latest, gpt-5")
    expect(panels.get_by_text("counsel config set panels.architecture opus-latest,gpt-5")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("@architecture is opus-latest, gpt-5.")).to_be_visible()
    assert config(console)["panels"]["architecture"] == ["opus-latest", "gpt-5"]
    panels.get_by_role("button", name="Change the panel architecture").click()
    form.get_by_label("Models of the panel").fill("gpt-5")
    page.keyboard.press("Enter")
    expect(page.get_by_text("@architecture is gpt-5.")).to_be_visible()
    page.get_by_role("button", name="Undo").last.click()
    expect(panels.get_by_role("listitem").last).to_contain_text("opus-latest, gpt-5")
    panels.get_by_role("button", name="Remove the panel architecture").click()
    expect(panels.get_by_role("listitem")).to_have_count(1)
    assert list(config(console)["panels"]) == ["roles"]
    expect_refusals(console)


def test_a_file_that_cannot_be_read_is_named_with_its_line_and_stays_as_it_is(console: Console) -> None:
    page = console.open("#/settings")
    form = page.get_by_role("form", name="max_files")
    expect(form).to_be_visible()
    file = console.counsel_home / "config.toml"  # by an editor, while the server runs
    file.write_text('default_effort = "high"\nmax_files = = 3\n')
    page.reload()
    expect(page.get_by_text(f"{file}: ")).to_contain_text("line 2, column 13")
    expect(page.get_by_role("combobox", name="Reasoning effort")).to_have_value("high")  # the rest counts
    form.get_by_role("textbox").fill("7")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("line 2, column 13")
    assert file.read_text() == 'default_effort = "high"\nmax_files = = 3\n'
    file.write_text("# mine\n")
    file.chmod(0o400)
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("chmod u+w")
    file.chmod(0o600)
    page.keyboard.press("Enter")
    expect(page.get_by_text("max_files is 7.")).to_be_visible()
    expect(page.get_by_text("line 2, column 13")).to_have_count(0)
    assert "# mine\n" in file.read_text()
    expect_refusals(console)


def test_the_palette_leads_to_a_setting_the_theme_is_chosen_and_signing_out_ends_the_session(
    console: Console,
) -> None:
    page = console.open("#/settings")
    expect(page.get_by_role("form", name="max_files")).to_be_visible()
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="All actions")
    palette.get_by_role("combobox").fill("change max files")
    expect(palette.get_by_role("option").first).to_contain_text("counsel config set max_files")
    page.keyboard.press("Enter")
    expect(page.get_by_role("form", name="max_files").get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Control+k")
    palette.get_by_role("combobox").fill("set the key of mistral")
    expect(palette.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Set the key of Mistral")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("radio", name="Dark").check()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert (
        page.evaluate("async () => (await fetch('/api/settings', { headers: { 'x-counsel': '1' } })).status")
        == 401
    )
    expect_refusals(console)
