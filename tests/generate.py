"""Pages and snapshots that are made from the code, so that they cannot drift from it.

`make docs` writes them; `tests/test_generated.py` fails when one is not what it should be. A room adds a row to
`generated`: the file, and the function that gives its whole text. A page with prose around a generated part is
made with `within`, which replaces what stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

# file → "module:function" under tests/ or src/; the function gives the file's whole text
generated: dict[str, str] = {
    "docs/agents.md": "agents.pages:agents",
    "docs/cli.md": "cli.pages:commands",
    "docs/models.md": "models.pages:models",
    "docs/providers.md": "models.pages:providers",
    "tests/models/matrix.txt": "models.matrix:matrix",
    "src/counsel/models/prices.json": "models.rates:table",
    "docs/doors.md": "doors.pages:doors",
    "docs/errors.md": "pages:errors",
    "docs/files.md": "pages:files",
    "docs/security.md": "pages:security",
    "docs/servers.md": "servers.pages:servers",
    "docs/settings.md": "pages:settings",
    "docs/tools.md": "doors.pages:tools",
    "src/counsel/doors/manifest.json": "doors.pages:manifest",
}


def within(path: str, **parts: str) -> str:
    """The page with the named parts replaced."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for name, part in parts.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        before, found, rest = text.partition(start)
        if not found or end not in rest:
            raise ValueError(f"{path} has no part {name!r}")
        text = f"{before}{start}\n{part.strip()}\n{end}{rest.partition(end)[2]}"
    return text


def wanted(path: str) -> str:
    module, _, function = generated[path].partition(":")
    make: Callable[[], str] = getattr(import_module(module), function)
    return make()


def main() -> None:
    for path in generated:
        text = wanted(path)
        file = ROOT / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"written: {path}\n")


if __name__ == "__main__":
    main()
