"""Values that an update leaves as they are in the file, although counsel would write them differently or not at all.

Examples are `$NAME` in Gemini CLI's file, `${NAME}` and `${NAME:-default}` in Cursor's: counsel reads all forms that
the client understands, but writes only one. While the entry is compared and written, marks stand for such values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from counsel.agents.references import Untranslatable
from counsel.agents.server_format import Entry, Server, ServerFormat

_MARK = "\ue001"  # a private-use character: no value begins with it


class OriginalText:
    def __init__(self, fmt: ServerFormat, entry: Entry, old: Server) -> None:
        """`old`: the server as read from this entry."""
        self._old = old
        self._marks: dict[str, str] = {}  # value as counsel reads it -> mark
        self._texts: dict[str, str] = {}  # mark -> value as in the file
        for text in dict.fromkeys(_strings(entry)):
            value = fmt.syntax.read(text)
            if value not in self._marks and (value != text or _written(fmt, value) != text):
                mark = self._marks[value] = f"{_MARK}{len(self._marks)}"
                self._texts[mark] = text

    def with_marks(self, server: Server) -> Server:
        """The server with marks in place of the values that have not changed."""
        old = self._old
        return server.replaced(
            command=self._mark(server.command, old.command),
            args=tuple(self._mark(arg, arg if arg in old.args else "") for arg in server.args),
            env={name: self._mark(value, old.env.get(name)) for name, value in server.env.items()},
            cwd=None if server.cwd is None else self._mark(server.cwd, old.cwd),
            url=self._mark(server.url, old.url),
            headers={
                name: self._mark(value, old.headers.get(name)) for name, value in server.headers.items()
            },
        )

    def restored(self, value: Any) -> Any:
        """A value to be written, with the file's own text in place of the marks."""
        if isinstance(value, str):
            return self._texts.get(value, value)
        if isinstance(value, Mapping):
            return {name: self.restored(item) for name, item in value.items()}
        return [self.restored(item) for item in value] if isinstance(value, list) else value

    def _mark(self, value: str, old: str | None) -> str:
        return self._marks.get(value, value) if value == old else value


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item)


def _written(fmt: ServerFormat, value: str) -> str | None:
    try:
        return fmt.syntax.write(value)
    except Untranslatable:
        return None
