"""Signing in with a real browser: links, the token, pages of others, and a daemon that dies."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from counsel.http.console.sessions import LINK_SECONDS, ConsoleSessions
from support import console_port
from support.browser import SECONDS, TOKEN, Console
from support.stdio_client import daemon_pid, kill_daemon

LARGEST_FIRST_PAINT = 100 * 1024  # bytes on the wire


def expect_signed_in(page: Page) -> None:
    expect(page.get_by_role("navigation", name="Screens")).to_be_attached()


def expect_sign_in_form(page: Page) -> None:
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def link(console: Console, *, age: float = 0) -> str:
    sessions = ConsoleSessions(console.counsel_home, TOKEN)
    key = sessions.new_link(str(console.project))
    if age:
        then = time.time() - age
        os.utime(sessions._path("links", key), (then, then))
    return f"{console.url}/login#{key}"


def test_a_link_signs_in_once_and_leaves_no_key_in_the_address(console: Console) -> None:
    address = link(console)
    page = console.new_page(signed_in=False)
    page.goto(address)
    expect_signed_in(page)
    assert "login" not in page.url
    assert address.partition("#")[2] not in page.url
    page.reload()
    expect_signed_in(page)
    second_page = console.new_page(signed_in=False)
    second_page.goto(address)
    expect_sign_in_form(second_page)
    expect(second_page.get_by_text("a link works once")).to_be_visible()
    console.errors.clear()  # the browser reports each 401


def test_an_expired_link_and_no_link_show_the_form_and_the_token_signs_in(console: Console) -> None:
    page = console.new_page(signed_in=False)
    page.goto(console.url)
    expect_sign_in_form(page)
    page.goto(link(console, age=LINK_SECONDS + 1))
    expect_sign_in_form(page)
    expect(page.get_by_text("for five minutes")).to_be_visible()
    page.get_by_label("Or paste the link or the token").fill(link(console))
    page.get_by_role("button", name="Sign in").click()
    expect_signed_in(page)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find an action").fill("sign out")
    page.keyboard.press("Enter")
    expect_sign_in_form(page)
    page.get_by_label("Or paste the link or the token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect_signed_in(page)
    console.errors.clear()


class OtherSiteHandler(BaseHTTPRequestHandler):
    """A page of somebody else on another port of this machine."""

    cookies: list[str]

    def do_GET(self) -> None:
        self.server.cookies.append(self.headers.get("Cookie", ""))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title><body></body>")

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def other_site() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), OtherSiteHandler)
    server.cookies = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


TRIES = """async (url) => {
  const results = {};
  const attempt = async (name, run) => {
    try { results[name] = await run(); } catch (error) { results[name] = String(error.name); }
  };
  const read = (options) => async () => { const r = await fetch(url + '/api/session', options); return r.type === 'opaque' ? 'opaque' : await r.text(); };
  await attempt('get', read({ credentials: 'include' }));
  await attempt('opaque', read({ credentials: 'include', mode: 'no-cors' }));
  await attempt('header', read({ credentials: 'include', headers: { 'X-Counsel': '1' } }));
  await attempt('delete', read({ credentials: 'include', method: 'DELETE' }));
  await attempt('post', read({ credentials: 'include', mode: 'no-cors', method: 'POST', body: '{"prompt": "stolen"}' }));
  await attempt('script', () => new Promise((resolve, reject) => {
    const element = document.createElement('script');
    element.onload = () => resolve('loaded');
    element.onerror = () => reject(new Error());
    element.src = url + '/api/openapi.json';
    document.body.append(element);
  }));
  await attempt('events', () => new Promise((resolve, reject) => {
    const source = new EventSource(url + '/api/events?jobs=1', { withCredentials: true });
    source.onopen = () => resolve('open');
    source.onerror = () => { source.close(); reject(new Error()); };
  }));
  await attempt('cookie', async () => document.cookie);
  return results;
}"""


def test_a_page_on_another_port_of_this_machine_gets_nothing(console: Console) -> None:
    expect_signed_in(console.page)
    with other_site() as server:
        page = console.page.context.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        results = page.evaluate(TRIES, console.url)
        assert any("counsel_session_" in cookie for cookie in server.cookies)  # as security.md says
        page.close()
    opaque = results.pop("opaque"), results.pop("post")
    assert set(opaque) <= {"opaque", "TypeError"}
    assert results.pop("cookie") == ""
    assert results == dict.fromkeys(results, "TypeError") | {"script": "Error", "events": "Error"}
    jobs = console.page.evaluate(
        "fetch('/api/jobs', {headers: {'X-Counsel': '1'}}).then((answer) => answer.json())"
    )
    assert jobs["jobs"] == []
    console.page.reload()
    expect_signed_in(console.page)  # nobody has signed it out


def test_the_console_cannot_be_framed(console: Console) -> None:
    expect_signed_in(console.page)
    with other_site() as server:
        page = console.page.context.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.evaluate(
            """(url) => new Promise((resolve) => {
              const frame = document.createElement('iframe');
              frame.onload = resolve;
              frame.src = url;
              document.body.append(frame);
            })""",
            console.url,
        )
        assert not [frame for frame in page.frames if frame.url.startswith(console.url)]
        page.close()


def test_no_script_of_the_page_makes_html_of_text_or_loads_from_outside(console: Console) -> None:
    page = console.page
    expect_signed_in(page)
    results = page.evaluate(
        """async () => {
          const results = [];
          const attempt = (run) => { try { run(); results.push('done'); } catch (error) { results.push(error.name); } };
          attempt(() => { document.createElement('div').innerHTML = '<b>x</b>'; });
          attempt(() => { trustedTypes.createPolicy('mine', { createHTML: (text) => text }); });
          await fetch('http://127.0.0.1:1/').catch((error) => results.push(error.name));
          return results;
        }"""
    )
    assert results == ["TypeError", "TypeError", "TypeError"]
    console.errors.clear()  # the browser reports each


def test_the_first_paint_transfers_little(console: Console) -> None:
    page = console.new_page(signed_in=False)
    page.goto(link(console))
    expect_signed_in(page)
    sizes = page.evaluate(
        """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
          .map((entry) => [entry.name, entry.transferSize])"""
    )
    assert len(sizes) > 3
    assert sum(size for _, size in sizes) <= LARGEST_FIRST_PAINT, json.dumps(sizes, indent=1)


STATUS = """() => fetch('/api/session', { headers: { 'X-Counsel': '1' } })
  .then((answer) => answer.status, () => 0)"""


def test_a_page_stays_signed_in_when_the_daemon_is_killed(console: Console, tmp_path: Path) -> None:
    """`counsel console` restarts the daemon, and the page needs neither a new address nor a new link."""
    output = tmp_path / "console.txt"
    home = tmp_path / "daemon-home"
    home.mkdir(mode=0o700)
    console_port.reserve(home)
    env = console.env | {"COUNSEL_HOME": str(home)}
    env.pop("COUNSEL_TOKEN")
    command = [sys.executable, "-m", "counsel", "console", "--no-browser", "--no-build"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, env=env, cwd=console.project, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        until = time.monotonic() + SECONDS
        while not (login := re.search(r"http://\S+/login#\S+", output.read_text())):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.05)
        page = console.new_page(signed_in=False)
        page.goto(login[0])
        expect_signed_in(page)
        address = page.url
        before = kill_daemon(home)
        while daemon_pid(home) in {None, before} or "was restarted" not in output.read_text():
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.05)
        while page.evaluate(STATUS) != 200:  # the port is opened just after the daemon's start
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.05)
        page.reload()
        expect_signed_in(page)
        assert page.url == address
    finally:
        process.terminate()
        process.wait(SECONDS)
        if daemon_pid(home) is not None:
            kill_daemon(home)
    console.errors.clear()
