"""A person in a real browser, at the console of a real `counsel serve` with fake vendors and scratch homes."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from counsel.engine.store.records import UsageRecord
from fake import FakeProcess
from support.client_programs import ROOT
from support.seeded import Seed, seed, seed_calls

PAGE = ROOT / "src" / "counsel" / "http" / "console" / "page"
TOKEN = "a-token-for-the-tests-of-the-console"
OTHER_NAME = socket.gethostname()  # this machine, but for a browser another host that is not trustworthy
SECONDS = 60  # against a hang, on a busy machine
expect.set_options(timeout=SECONDS * 1000)


@dataclass
class Console:
    """`open("#/jobs")`, then use `page`. Errors on the page fail the test at its end, unless `errors` is emptied."""

    browser: Browser
    vendors: FakeProcess
    home: Path  # of the user
    counsel_home: Path
    project: Path
    env: dict[str, str]
    port: int = 0
    errors: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None
    _contexts: list[BrowserContext] = field(default_factory=list)
    _page: Page | None = None

    # ── the server ──

    def start(self) -> None:
        log = self.counsel_home.parent / "serve.log"
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "counsel", "serve", "--port", str(self.port)],
                env=self.env,
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        before = time.monotonic()
        while not (ports := re.findall(r"http://127\.0\.0\.1:(\d+)/mcp", log.read_text())) or not self.ready(
            int(ports[-1])
        ):
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() - before < SECONDS, log.read_text()
            time.sleep(0.05)
        self.port = int(ports[-1])

    def ready(self, port: int) -> bool:
        return self.port in {0, port}

    def stop(self, sign: int = signal.SIGTERM) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(sign)
            self._process.wait(SECONDS)
        self._process = None

    def kill_and_restart(self) -> None:
        """Simulate a crash: restart with the same port and home."""
        self.stop(signal.SIGKILL)
        (self.counsel_home.parent / "serve.log").write_text("")
        self.start()

    def api(self, method: str, path: str, body: Any = None, *, parse: bool = True) -> Any:
        """A request of another client of the same server. The page shows its jobs, too."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            content = answer.read()
            return json.loads(content or b"null") if parse else content

    def ask(self, prompt: str, **more: Any) -> str:
        """Start a background job; return its id."""
        question = {
            "prompt": prompt,
            "mode": "background",
            **({} if "models" in more else {"model": "gpt-5"}),
        }
        return str(self.api("POST", "/api/jobs", {**question, **more})["job_id"])

    def seed(self, *seeds: Seed) -> None:
        """Store jobs of an earlier run."""
        self._write(seed, *seeds)

    def seed_calls(self, *calls: UsageRecord) -> None:
        """Store calls of earlier days."""
        self._write(seed_calls, *calls)

    def _write(self, write: Callable[..., None], *rows: object) -> None:
        """In a thread: Playwright has an event loop in this one."""
        self.stop()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(write, self.counsel_home, *rows).result()
        (self.counsel_home.parent / "serve.log").write_text("")
        self.start()

    # ── the browser ──

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def page(self) -> Page:
        if self._page is None:
            self._page = self.new_page()
        return self._page

    def new_page(
        self, *, signed_in: bool = True, width: int = 1280, height: int = 860, theme: str = "light"
    ) -> Page:
        """A page in a browser profile of its own."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(SECONDS * 1000)
        self._contexts.append(context)
        page = self.watched(context.new_page())
        if signed_in:
            page.goto(f"{self.url}/login#{TOKEN}")
            expect(page.locator("#main")).to_be_attached()
        return page

    def watched(self, page: Page) -> Page:
        def message(text: ConsoleMessage) -> None:
            # While the server is down the browser reports every try to reach it.
            if text.type == "error" and not re.search(r"ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE", text.text):
                self.errors.append(text.text)

        page.on("console", message)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    def open(self, hash: str) -> Page:  # noqa: A002 - what a URL calls it
        self.page.goto(f"{self.url}/{hash}")
        return self.page

    def press_keys(self, keys: str, title: str) -> None:
        """Press keys that open a screen, again if the machine was too busy: they count within two seconds."""
        for attempt in range(5):
            for key in keys.split():
                self.page.keyboard.press(key)
            try:
                expect(self.page).to_have_title(title, timeout=5_000)
            except AssertionError:
                if attempt == 4:
                    raise
            else:
                return

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self.stop()
