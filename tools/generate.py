"""Pages and snapshots that are generated from the code, so that they cannot drift from it.

`make docs` writes them; `tests/test_generated.py` fails when one is out of date. To add one, add a row to
`generated`: the file, and the function that returns its text. For a page with prose around a generated part, use
`within`: it replaces the text between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent

# file → "module:function" in tools/
generated: dict[str, str] = {
    "src/counsel/models/shipped.json": "shipped:tables",  # first: pages about models are generated from it
    "docs/use/agents.md": "pages.agents:agents",
    "docs/use/cli.md": "pages.cli:commands",
    "docs/internals/interfaces.md": "pages.mcp:interfaces",
    "docs/use/errors.md": "pages.shared:errors",
    "docs/use/files.md": "pages.shared:files",
    "docs/use/http.md": "pages.http:routes",
    "docs/use/models.md": "pages.models:models",
    "docs/use/openapi.json": "pages.http:document",
    "docs/use/providers.md": "pages.models:providers",
    "docs/use/security.md": "pages.shared:security",
    "docs/use/servers.md": "pages.servers:servers",
    "docs/use/settings.md": "pages.shared:settings",
    "docs/use/tools.md": "pages.mcp:tools",
    "docs/use/troubleshooting.md": "pages.doctor:troubleshooting",
    "src/counsel/front/manifest.json": "pages.mcp:manifest",
    "src/counsel/models/prices.json": "prices:table",
    "tests/models/matrix.txt": "matrix:matrix",
}


def within(path: str, **parts: str) -> str:
    """Return the page with the named parts replaced."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for name, part in parts.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        before, mark, rest = text.partition(start)
        if not mark or end not in rest:
            raise ValueError(f"{path} has no part {name!r}")
        text = f"{before}{start}\n{part.strip()}\n{end}{rest.partition(end)[2]}"
    return text


def content(path: str) -> str:
    """Return the text that the file should have."""
    module, _, function = generated[path].partition(":")
    make: Callable[[], str] = getattr(import_module(f"tools.{module}"), function)
    return make()


def main() -> None:
    for path in generated:
        text = content(path)
        file = ROOT / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"written: {path}\n")


if __name__ == "__main__":
    main()
