"""Pictures of the console for the docs: `make screenshots` writes docs/images/console/SCREEN-THEME.png.

They show a scratch server with fake vendors, for an invented person with four agents, servers, skills and jobs.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from fake import FakeProcess  # noqa: E402 - tests/ is a folder of modules
from support import sample_home, sample_jobs, sample_usage  # noqa: E402 - the path comes first
from support.browser import TOKEN, Console  # noqa: E402 - the path comes first
from support.terminal import user_env  # noqa: E402 - the path comes first

FOLDER = ROOT / "docs" / "images" / "console"
SIZE = {"width": 1280, "height": 800}
LARGEST = 150_000  # bytes of a picture


def scratch(browser: Browser, vendors: FakeProcess, folder: Path) -> Console:
    home, counsel_home, project = (
        folder / "ada",
        folder / "ada" / ".local" / "share" / "counsel",
        folder / "ada" / "work" / "shop",
    )
    for path in (home, counsel_home, project):
        path.mkdir(mode=0o700, parents=True)
    env = user_env(home, counsel_home, vendors) | {
        "COUNSEL_TOKEN": TOKEN,
        "ANTHROPIC_API_KEY": f"sk-ant-api03-{'x' * 90}",
        "GEMINI_API_KEY": f"AIza{'x' * 35}",
        "GOOGLE_GEMINI_BASE_URL": vendors.url,
        "TZ": "UTC",
    }
    env = sample_home.programs(home, env)
    sample_home.fill(home, project)
    (counsel_home / "config.toml").write_text(
        'default_model = "opus-latest"\nconsensus_models = ["gpt-latest", "opus-latest", "gemini-latest"]\nbudget_month = 50\n\n'
        '[aliases]\nquick = "gpt-5-nano"\n\n[panels]\narchitecture = ["opus-latest", "gpt-latest"]\n'
    )
    console = Console(browser, vendors, home, counsel_home, project, env)
    console.start()
    return console


def screens(ids: dict[str, str]) -> dict[str, str]:
    return {
        "ask": f"#/ask/{ids['conversation']}",
        "consensus": f"#/consensus/{ids['consensus']}",
        "jobs": "#/jobs",
        "job": f"#/jobs/{ids['job']}",
        "servers": "#/servers",
        "skills": "#/skills",
        "skill": "#/skills/release",
        "matrix": "#/skills?view=matrix",
        "usage": "#/usage?range=30d",
        "servers-matrix": "#/servers?view=matrix",
        "agents": "#/agents",
        "settings": "#/settings",
    }


def take(page: Page, url: str, name: str, theme: str) -> Path:
    page.goto(url)
    expect(page.locator("#main h1, #main h2").first).to_be_attached()
    expect(page.get_by_text(re.compile(r"^(Reading|Looking|Loading|Checking)\b.* …$"))).to_have_count(0)
    page.wait_for_timeout(700)  # code is highlighted, charts are drawn
    path = FOLDER / f"{name}-{theme}.png"
    page.screenshot(path=path, animations="disabled")
    shrink(path)
    return path


def shrink(path: Path) -> None:
    """256 colours are enough for a page of text."""
    with Image.open(path) as image:
        smaller = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    smaller.save(path, optimize=True)
    if (size := path.stat().st_size) > LARGEST:
        raise SystemExit(f"{path} has {size} bytes, more than {LARGEST}.")


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("Chromium is not installed. Install it: apt-get install chromium")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        FakeProcess() as vendors,
        tempfile.TemporaryDirectory(prefix="counsel-screenshots-") as folder,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        console = scratch(browser, vendors, Path(folder))
        try:
            ids = sample_jobs.ask(console, pace=1)
            console.seed_calls(*sample_usage.calls(str(console.project.parent)))
            for theme in ("light", "dark"):
                page = console.new_page(width=SIZE["width"], height=SIZE["height"], theme=theme)
                for name, address in screens(ids).items():
                    if not sys.argv[1:] or name in sys.argv[1:]:
                        print(take(page, f"{console.url}/{address}", name, theme).relative_to(ROOT))
        finally:
            console.close()
            browser.close()


if __name__ == "__main__":
    main()
