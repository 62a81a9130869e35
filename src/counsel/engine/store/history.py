"""The whole stored history of a person, for import into another store, and the report of an import."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeAlias

from counsel.lazy_dataclass import dataclass

Row: TypeAlias = Mapping[str, Any]  # values by column; JSON lists are parsed


class History(Protocol):
    """What a SQLite database contains. Reading it changes nothing."""

    problem: str | None  # set if some rows could not be read

    def conversations(self) -> Iterator[Row]:
        """Those that have not expired."""

    def messages(self, conversation: str) -> Iterator[Row]:
        """In order of `n`."""

    def jobs(self) -> Iterator[Row]:
        """Those that have ended, in the order in which they were submitted."""

    def open_jobs(self) -> list[str]: ...

    def calls(self, job: str) -> Iterator[Row]: ...

    def events(self, job: str) -> Iterator[Row]: ...

    def usage(self) -> Iterator[Row]: ...

    def blob(self, sha: str) -> tuple[str, bytes] | None:
        """Its media type and its bytes."""


@dataclass(slots=True)
class ImportReport:
    """What was added, and what was not."""

    conversations: int = 0
    messages: int = 0
    jobs: int = 0
    usage: int = 0
    images: int = 0
    present: int = 0  # conversations and jobs that were already there
    open_jobs: list[str] = field(default_factory=list)  # unfinished jobs, which are not imported
    renamed: dict[str, str] = field(default_factory=dict)  # new ids, by old ids that belonged to others
    untagged: list[str] = field(default_factory=list)  # conversations whose tag was taken
    diverged: list[str] = field(default_factory=list)  # conversations that were continued in both places
    problem: str | None = None

    @property
    def added(self) -> Collection[int]:
        return self.conversations, self.messages, self.jobs, self.usage, self.images
