from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from fake import FakeProcess
from support.browser import OTHER_NAME, PAGE, TOKEN, Console
from support.client_programs import missing
from support.terminal import user_env


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this folder's tests: while it is open, no asyncio test could run in this process."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        missing("Chromium is not installed: apt-get install chromium")
    if not (PAGE / "index.html").is_file():
        missing("the console is not built: make console")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1"]
        )
        yield browser
        browser.close()


@pytest.fixture
def console(browser: Browser, fake_process: FakeProcess, tmp_path: Path) -> Iterator[Console]:
    home, counsel_home, project = tmp_path / "user", tmp_path / "home", tmp_path / "project"
    for folder in (home, counsel_home, project):
        folder.mkdir(mode=0o700)
    env = user_env(home, counsel_home, fake_process)
    env |= {
        "COUNSEL_TOKEN": TOKEN,
        "GEMINI_API_KEY": "test-gemini-key-0000",
        "GOOGLE_GEMINI_BASE_URL": fake_process.url,
    }
    console = Console(browser, fake_process, home, counsel_home, project, env)
    try:
        console.start()
        yield console
        assert console.errors == []
    finally:
        console.close()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all on one worker: they share one browser, whose start takes seconds."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            item.add_marker("no_cover")
            item.add_marker(pytest.mark.xdist_group("console"))
