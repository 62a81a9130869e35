"""Building the page in a checkout: progress, what is done once, and what a failure leaves.

Node itself is a stand-in.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counsel.cli import console as command
from counsel.http.console import build

NODE = """#!/bin/sh
echo "node $*" >> {log}
case "$1" in
--version) echo "{version}"; exit 0 ;;
esac
while [ "$1" != --outDir ]; do shift; done
mkdir -p "$2/assets"
echo page > "$2/index.html"
echo 1 > "$2/assets/index-1.js"
{more}
"""
NPM = """#!/bin/sh
echo "npm $*" >> {log}
mkdir -p node_modules
{more}
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.source, self.target = folder / "console", folder / "site" / "page"
        self.programs, self.log = folder / "bin", folder / "log"
        for path in (self.source / "src", self.target.parent, self.programs):
            path.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", "src/main.ts"):
            (self.source / name).write_text("{}")
        self.reports: list[str] = []
        self.install()

    def install(self, *, version: str = "v22.12.0", node: str = "", npm: str = "") -> None:
        for name, text, more in (("node", NODE, node), ("npm", NPM, npm)):
            path = self.programs / name
            path.write_text(text.format(log=self.log, version=version, more=more))
            path.chmod(0o755)

    def build(self) -> list[str]:
        self.log.write_text("")
        build.build(self.source, self.target, self.reports.append)
        return [line.split()[0] + " " + line.split()[1] for line in self.log.read_text().splitlines()]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    new_checkout = Checkout(tmp_path)
    monkeypatch.setenv("PATH", f"{new_checkout.programs}:/usr/bin:/bin")
    monkeypatch.setattr(build, "_wheel", lambda: None)
    return new_checkout


def test_packages_are_installed_once_and_the_page_is_replaced_as_a_whole(checkout: Checkout) -> None:
    assert any(line == "npm ci" for line in checkout.build())
    assert [text.partition(" ")[0] for text in checkout.reports] == ["Installing", "Building"]
    (checkout.target / "old.js").write_text("")
    assert not any(line.startswith("npm") for line in checkout.build())
    assert sorted(path.name for path in checkout.target.iterdir()) == ["assets", "index.html"]
    assert [path.name for path in checkout.target.parent.iterdir()] == ["page"]


def test_a_newer_source_or_lock_is_noticed(checkout: Checkout) -> None:
    assert not build.is_fresh(checkout.source, checkout.target)
    checkout.build()
    assert build.is_fresh(checkout.source, checkout.target)
    later = (checkout.target / "index.html").stat().st_mtime + 10
    os.utime(checkout.source / "src" / "main.ts", (later, later))
    assert not build.is_fresh(checkout.source, checkout.target)
    os.utime(checkout.source / "package-lock.json", (later, later))
    assert any(line == "npm ci" for line in checkout.build())


@pytest.mark.parametrize(
    ("node", "npm", "words"),
    [
        ("", "echo no network; exit 1", "no network"),
        ("echo a mistake in App.svelte; exit 1", "", "a mistake in App.svelte"),
        ('echo 1 > "$2/assets/index-1.js.map"', "", "source maps"),
        ('rm -r "$2/assets"', "", "incomplete"),
    ],
)
def test_a_failed_build_says_why_and_leaves_the_page_that_is_there(
    checkout: Checkout, node: str, npm: str, words: str
) -> None:
    checkout.target.mkdir()
    (checkout.target / "index.html").write_text("the last one")
    checkout.install(node=node, npm=npm)
    with pytest.raises(build.BuildFailed, match=words):
        checkout.build()
    assert (checkout.target / "index.html").read_text() == "the last one"
    assert [path.name for path in checkout.target.parent.iterdir()] == ["page"]


def test_an_old_node_or_none_is_named(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout.install(version="v18.19.0")
    with pytest.raises(build.BuildFailed, match=r"needs Node\.js 20\.19 or newer.* is 18\.19"):
        checkout.build()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(build.BuildFailed, match="there is no node"):
        build.programs()


def test_a_node_of_the_current_folder_is_not_run(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout.programs)
    monkeypatch.setenv("PATH", ".:")
    with pytest.raises(build.BuildFailed, match="there is no node"):
        build.programs()


def test_a_console_that_cannot_be_built_is_a_warning(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "checkout", lambda: checkout.source)
    monkeypatch.setattr(build, "TARGET", checkout.target)
    command._build_page(quiet=False)
    assert build.is_fresh(checkout.source, checkout.target)
    assert "Building the console" in capsys.readouterr().err
    checkout.install(version="v1.0.0")
    (checkout.target / "index.html").unlink()
    command._build_page(quiet=False)
    assert "warning: cannot build the console: it needs Node.js" in capsys.readouterr().err
