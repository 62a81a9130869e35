"""Pictures of a terminal for the README and the docs, from real commands: `make pictures` writes docs/pictures/*.svg.

Each command runs in its own terminal, with an empty home, against the fake vendors of the tests. The models' answers
are below; everything else is counsel's own output. The scratch home appears as `~`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from fake import FakeProcess  # noqa: E402 - tests/ is a folder of modules
from support.terminal import Terminal  # noqa: E402 - the path comes first

FOLDER = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 92, 200
# rich's template loads a font from the network; the reader's own monospace font will do
TEMPLATE = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, ", ""
)

STABLE = """\
Yes. Python's `sorted()` is **stable**: items that compare equal keep their order.

```python
pairs = [("b", 1), ("a", 2), ("b", 0)]
sorted(pairs, key=lambda pair: pair[0])
# [('a', 2), ('b', 1), ('b', 0)]
```

- It has been guaranteed since Python 2.3 (Timsort).
- So you can sort by the minor key first, then by the major one.
"""
OPINIONS = {
    "gpt": "**A modular monolith.** Five people cannot run twelve services. Split when a team owns a part.",
    "claude": "**A monolith with enforced boundaries.** Services buy independent deploys, which you do not need yet.",
    "gemini": "**A monolith**, and one service for the import jobs: their load is different from the rest.",
}
PICTURES = {
    "ask": 'counsel ask "Is Python\'s sorted() stable?" -m gpt-latest',
    "consensus": 'counsel consensus "Monolith or services?" -m gpt-latest -m opus-latest -m gemini-latest',
    "jobs": "counsel jobs",
    "models": "counsel models gpt",
}


def answers(fake: FakeProcess) -> None:
    fake.script(text=STABLE, contains="sorted", times=None)
    for model, text in OPINIONS.items():
        fake.script(text=text, model=model, times=None)


def environment(home: Path, fake: FakeProcess) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COUNSEL_DAEMON_IDLE_SECONDS": "5",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "OPENAI_API_KEY": f"sk-proj-{'x' * 48}",
        "OPENAI_BASE_URL": fake.v1,
        "ANTHROPIC_API_KEY": f"sk-ant-api03-{'x' * 90}",
        "ANTHROPIC_BASE_URL": fake.url,
        "GEMINI_API_KEY": f"AIza{'x' * 35}",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
    }


def styled(screen: Any, home: Path) -> Text:
    """The terminal's text with its styles, scrollback included."""
    text = Text()
    rows = [*screen.history.top, *(screen.buffer[y] for y in range(screen.lines))]
    for row in rows:
        for x in range(screen.columns):
            cell = row[x]
            style = Style(
                color=_color(cell.fg),
                bgcolor=_color(cell.bg),
                bold=cell.bold,
                italic=cell.italics,
                underline=cell.underscore,
                reverse=cell.reverse,
            )
            text.append(cell.data, style)
        text.append("\n")
    plain = text.plain
    text = text[: len(plain.rstrip())]
    return Text("\n").join(_without(line, str(home)) for line in text.split("\n"))


def _without(line: Text, home: str) -> Text:
    line.rstrip()
    while (at := line.plain.find(home)) >= 0:
        line = Text.assemble(line[:at], "~", line[at + len(home) :])
    return line


_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}


def _color(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    return _NAMES.get(name, name.replace("bright", "bright_"))


def take(name: str, command: str, env: dict[str, str], home: Path) -> None:
    program, *arguments = shlex.split(command)
    with Terminal(
        *arguments, env=env, cwd=home / "project", columns=COLUMNS, rows=ROWS, command=(program,)
    ) as terminal:
        terminal.wait()
        picture = styled(terminal.screen, home)
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open until the process ends
    console.print(Text.assemble(("$ ", "green"), (command, "bold")), soft_wrap=True)
    console.print(picture)
    svg = console.export_svg(
        title="counsel", theme=DIMMED_MONOKAI, code_format=TEMPLATE, unique_id=f"counsel-{name}"
    )
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")


def main() -> None:
    names = sys.argv[1:] or list(PICTURES)
    with FakeProcess() as fake, tempfile.TemporaryDirectory(prefix="counsel-pictures-") as folder:
        home = Path(folder)
        (home / "project").mkdir()
        answers(fake)
        env = environment(home, fake)
        for name in names:
            take(name, PICTURES[name], env, home)
            print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
