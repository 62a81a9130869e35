"""The settings files in COUNSEL_HOME: `.env` and `config.toml`. A bad line is reported and never prevents a start."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path


def _read_text(path: Path, problems: list[str]) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        problems.append(f"{path}: cannot be read ({reason}); ignored.")
        return None


def read_toml(path: Path, problems: list[str]) -> dict[str, object]:
    text = _read_text(path, problems)
    if text is None:
        return {}
    import tomllib  # only if there is a config.toml

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        values, bad_lines = salvage(text)
        problems.append(f"{path}: {error}: {line_numbers(bad_lines)} ignored; the rest is used.")
        return values


def line_numbers(numbers: Sequence[int]) -> str:
    """`line 3`, `lines 3, 5`."""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def salvage(text: str) -> tuple[dict[str, object], list[int]]:
    """The readable part of a TOML file, and the numbers of its bad lines, which are removed until the rest parses."""
    import tomllib

    lines = text.splitlines()
    bad_lines: list[int] = []
    while True:
        try:
            return tomllib.loads("\n".join(lines)), bad_lines
        except tomllib.TOMLDecodeError as error:
            match = re.search(r"at line (\d+)", str(error))
            number = int(match[1]) if match else len(lines)
            number = min(number, len(lines))
            while number > 1 and not lines[number - 1].strip():
                number -= 1
            if number < 1 or number in bad_lines:
                return {}, [*bad_lines, number]
            for bad in _bad_lines(lines, number):
                lines[bad - 1] = ""
                bad_lines.append(bad)


def _bad_lines(lines: list[str], number: int) -> list[int]:
    """The numbers of the lines to remove: a bad header's whole table, or its keys would belong to the table above."""
    if not lines[number - 1].lstrip().startswith("["):
        return [number]
    following = range(number + 1, len(lines) + 1)
    table = itertools.takewhile(lambda index: not lines[index - 1].lstrip().startswith("["), following)
    return [number, *(index for index in table if lines[index - 1].strip())]


_LINE: Callable[[str], re.Match[str] | None] = re.compile(
    r"""\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|(?!["'])(.*?))\s*(?:(?<=[\s"'])\#.*)?"""
).fullmatch


def read_dotenv(path: Path, problems: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for number, line in enumerate((_read_text(path, problems) or "").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if match := _LINE(line):
            values[match[1]] = next(part for part in match.groups()[1:] if part is not None)
        else:  # do not show the line: it may contain a key
            problems.append(f"{path}: line {number} is not NAME=value; ignored.")
    return values
