"""The console of a team's server: an admin signs in with the issuer, adds a person, who signs in with the token."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fake import FakeProcess
from support.accessibility import violations
from support.browser import SECONDS, TOKEN, Console
from support.oidc_provider import CLIENT, SECRET, OidcProvider
from support.terminal import user_env

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

ADMIN = "ada@example.com"
LONG_NAME = "grace-of-the-research-department@lab.example.com"


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider().running() as running:
        yield running


@pytest.fixture
def console(
    browser: Browser,
    fake_process: FakeProcess,
    tmp_path: Path,
    postgres_server: PostgresServer,
    provider: OidcProvider,
) -> Iterator[Console]:
    home, counsel_home, project = tmp_path / "user", tmp_path / "home", tmp_path / "project"
    for folder in (home, counsel_home, project):
        folder.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with postgres_server.migrated() as url:
        env = user_env(home, counsel_home, fake_process) | {
            "COUNSEL_DATABASE": url,
            "COUNSEL_TOKEN": TOKEN,
            "COUNSEL_SECRET_KEY": "a-secret-key-for-peoples-own-keys-0123",
            "COUNSEL_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "COUNSEL_OIDC_ISSUER": provider.url,
            "COUNSEL_OIDC_CLIENT_ID": CLIENT,
            "COUNSEL_OIDC_CLIENT_SECRET": SECRET,
        }
        console = Console(browser, fake_process, home, counsel_home, project, env, port)
        try:
            console.start()
            yield console
            assert console.errors == []
        finally:
            console.close()


def add(console: Console, name: str, role: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "counsel", "people", "add", name, "--role", role, "--json"],
        env=console.env,
        capture_output=True,
        check=True,
    )
    return str(json.loads(result.stdout)["token"])


def ask_and_share(console: Console, token: str) -> None:
    def send(path: str, body: object) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{console.url}{path}", json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return dict(json.load(answer))

    reply = send("/api/jobs", {"prompt": "What is a lighthouse?", "model": "gpt-5"})
    send(f"/api/conversations/{reply['continuation']['id']}/share", {})


def screens(page: Page) -> list[str]:
    return page.get_by_role("navigation", name="Screens").get_by_role("link").all_inner_texts()


def look(page: Page, name: str) -> list[str]:
    """Violations on the page: light at phone width, dark on a desktop."""
    wrong = []
    for theme, width in (("light", 390), ("dark", 1280)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type] # one of its words
        page.set_viewport_size({"width": width, "height": 860})
        wrong += [f"{name}, {theme}, {width}: {line}" for line in violations(page)]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"{name} at {width}: it scrolls sideways")
    return wrong


def test_an_admin_signs_in_with_the_issuer_and_adds_a_person_who_signs_in_with_the_token(
    console: Console, provider: OidcProvider
) -> None:
    add(console, ADMIN, "admin")
    add(console, LONG_NAME, "member")
    provider.redirect_uri = f"{console.url}/login/callback"
    page = console.new_page(signed_in=False)
    page.goto(console.url)
    expect(page.get_by_label("Your token")).to_be_visible()
    wrong = look(page, "sign-in")
    provider.claims["email_verified"] = False
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    expect(page.get_by_text("You may not use this server")).to_be_visible()
    assert "problem" not in page.url
    provider.claims["email_verified"] = True
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    expect(page.get_by_role("navigation", name="Screens")).to_be_attached()
    assert screens(page) == ["Ask", "Consensus", "Jobs", "Usage", "People", "Account"]
    expect(page.get_by_role("complementary").get_by_text(ADMIN)).to_be_visible()
    console.errors.clear()  # the browser reports each 401 before the sign-in
    page.goto(f"{console.url}/#/servers")
    expect(page).to_have_title("Ask · counsel")

    page.goto(f"{console.url}/#/people")
    page.get_by_role("button", name="Add a person").click()
    page.get_by_label("Name").fill("Bob")
    page.get_by_label("Groups").fill("ops, web")
    page.get_by_label("Groups").press("Enter")
    expect(page.get_by_role("dialog", name="The token of Bob")).to_be_visible()
    token = page.locator("dialog code").inner_text()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Set a limit").click()
    page.get_by_role("dialog", name="Limits").get_by_label("Name").fill("Bob")
    page.get_by_label("US dollars a day").fill("2.5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Change the limits of Bob")).to_be_visible()
    wrong += look(page, "people")
    page.set_viewport_size({"width": 390, "height": 860})  # a long name leaves room for the role
    box = page.get_by_label(f"Role of {LONG_NAME}").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    page.set_viewport_size({"width": 1280, "height": 860})

    bob = console.new_page(signed_in=False)
    bob.goto(console.url)
    bob.get_by_label("Your token").fill(token)
    bob.get_by_role("button", name="Sign in", exact=True).click()
    expect(bob.get_by_role("navigation", name="Screens")).to_be_attached()
    assert "People" not in screens(bob)
    console.errors.clear()
    ask_and_share(console, token)
    bob.goto(f"{console.url}/#/ask")
    expect(bob.get_by_role("navigation", name="Conversations").get_by_text("shared")).to_be_visible()
    bob.goto(f"{console.url}/#/usage")
    expect(bob.get_by_text("left", exact=False).first).to_be_visible()
    expect(bob.get_by_text("Today, Bob")).to_be_visible()
    bob.goto(f"{console.url}/#/account")
    bob.get_by_role("button", name="Set your key of OpenAI").click()
    bob.get_by_label("Key", exact=True).fill("sk-own-key-of-bob-0123456789")
    bob.get_by_label("Key", exact=True).press("Enter")
    expect(bob.get_by_role("button", name="Remove your key of OpenAI")).to_be_visible()
    wrong += look(bob, "account")

    rita = console.new_page(signed_in=False)
    rita.goto(console.url)
    rita.get_by_label("Your token").fill(add(console, "Rita", "read-only"))
    rita.get_by_role("button", name="Sign in", exact=True).click()
    expect(rita.get_by_text("you can read, but not ask")).to_be_visible()
    expect(rita.get_by_label("Your question")).to_have_count(0)
    wrong += look(rita, "ask, read-only")
    rita.goto(f"{console.url}/#/consensus")
    expect(rita.get_by_text("you can read, but not ask")).to_be_visible()
    console.errors.clear()
    paths: list[str] = []
    bob.on("request", lambda request: paths.append(request.url.removeprefix(console.url)))
    bob.goto(f"{console.url}/#/consensus")
    with bob.expect_response("**/api/models"):
        bob.reload()
    expect(bob.get_by_role("button", name="Ask the panel")).to_be_visible()
    assert not {"/api/agents", "/api/settings"} & set(paths), "a team's server refuses them"

    page.get_by_role("button", name="Disable Bob").click()
    page.get_by_role("button", name="Disable", exact=True).click()
    expect(page.get_by_role("button", name="Enable Bob")).to_be_visible()
    bob.goto(f"{console.url}/#/jobs")
    expect(bob.get_by_label("Your token")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in with 127.0.0.1")).to_be_visible()
    console.errors.clear()
    assert wrong == []
