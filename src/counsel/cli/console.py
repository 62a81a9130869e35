"""`counsel console`: counsel in the browser. The daemon serves the page on a loopback port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counsel.cli import connect, json_option, user
from counsel.cli.terminal import output

if TYPE_CHECKING:
    from counsel.caller import Caller
    from counsel.daemon.console import OpenConsole
    from counsel.daemon.rpc_client import RemoteEngine

REDIRECT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>counsel</title><meta http-equiv="refresh" content="0; url={link}"></head>
<body><a href="{link}">Open the console</a></body>
</html>
"""


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port (default: the last one used, initially 3158)."
)
@click.option("--no-browser", is_flag=True, help="Print the link; open no browser.")
@click.option("--detach", is_flag=True, help="Return at once. The daemon serves the page until it is idle.")
@click.option("--no-build", is_flag=True, help="Do not build the page first (only a checkout builds it).")
@json_option
def console(*, port: int | None, no_browser: bool, detach: bool, no_build: bool, as_json: bool) -> None:
    """Open the console in your browser: ask, compare, follow jobs, manage servers and skills.

    Prints a link that signs in once, within five minutes. The command runs until Ctrl-C and restarts the daemon if
    it dies, so that an open page reconnects. --json prints the link and implies --no-browser and --detach.
    """
    if not no_build:
        _build_page(quiet=as_json)
    browser, stay = not (no_browser or as_json), not (detach or as_json)
    connect.run(_open(user.caller(), port or 0, browser=browser, stay=stay, as_json=as_json))


async def _open(caller: Caller, port: int, *, browser: bool, stay: bool, as_json: bool) -> None:
    from counsel.daemon.rpc_client import connect as daemon

    engine = await daemon(caller)
    try:
        access = await engine.console_open(caller, port)
        _show(access, caller, browser=browser, as_json=as_json)
        if stay:
            output.message("Ctrl-C ends this command; jobs continue.")
            await _keep_open(engine, caller, access)
    finally:
        await engine.close()


async def _keep_open(engine: RemoteEngine, caller: Caller, access: OpenConsole) -> None:
    def report_restart() -> None:
        output.message("The daemon was restarted; open pages reconnect.")

    while True:
        await engine.console_hold(caller, access["port"], report_restart)
        access = await engine.console_open(caller)
        output.message("The port is in use by another program; the console has a new address.")
        _show(access, caller, browser=False, as_json=False)


def _show(access: OpenConsole, caller: Caller, *, browser: bool, as_json: bool) -> None:
    from counsel.http.console.sessions import LINK_SECONDS

    link = f"{access['url']}/login#{access['key']}"
    if as_json:
        output.document({"url": f"{access['url']}/", "link": link, "expires_in": LINK_SECONDS})
        return
    output.message("Open the console with this link (it signs in once, within five minutes):")
    output.line(f"  {link}")
    if browser and _has_browser(caller.env):
        _open_browser(caller.settings.home, link, caller.env)


# ── the browser ──────────────────────────────────────────────────────────────────────────────────────


def _has_browser(env: Mapping[str, str]) -> bool:
    """Whether a browser would open where the user is: not on a server, not in an SSH session without a display."""
    if env.get("BROWSER"):
        return True
    display = bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        return display
    return display or sys.platform == "darwin" or bool(env.get("WSL_DISTRO_NAME"))


def _open_browser(home: Path, link: str, env: Mapping[str, str]) -> None:
    """Open a private file that redirects to the link: all users can see a browser's arguments in the process list."""
    from counsel import paths, run_paths, untrusted

    folder = Path(run_paths.run_folder(str(home))) / "console"
    paths.private_folder(folder)
    file = folder / "open.html"
    paths.write_private(str(file), REDIRECT.format(link=link).encode(), replace=True)
    try:
        # a separate process hides what the browser prints; -I imports nothing from the current folder
        subprocess.Popen(
            [sys.executable, "-I", "-m", "webbrowser", file.as_uri()],
            env=untrusted.absolute_paths(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        output.message(f"Cannot start a browser ({error.strerror}): open the link yourself.")


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────


def _build_page(*, quiet: bool) -> None:
    """In a checkout, build the page at its first use and when its source is newer. A failure is only a warning."""
    from counsel.http.console import build

    source = build.checkout()
    if source is None or build.is_fresh(source, build.TARGET):
        return
    try:
        build.build(source, build.TARGET, report=(lambda _: None) if quiet else output.message)
    except build.BuildFailed as error:
        output.message(f"warning: cannot build the console: {error}")
