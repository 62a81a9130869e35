"""A command's plan: first the refusals and warnings for every agent and scope, then the edits as planned writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from counsel.agents.definitions import AgentName, Workspace
from counsel.agents.server_format import ServerTable
from counsel.configfiles.document import Meaning
from counsel.configfiles.edits import Edit, Put, alike, lookup, value_after
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import PlannedWrite, Reader, Target
from counsel.errors import CounselError
from counsel.servers import codex_layers, secrets
from counsel.servers.formats import FORMATS

EditMaker = Callable[[Meaning], list[Edit]]


class Result:
    """The outcome for one table."""

    def __init__(self, table: ServerTable, name: str, action: str, warnings: Sequence[str] = ()) -> None:
        self.agent: str = table.agent
        self.scope: str = table.scope
        self.path = str(table.target.path)
        self.name = name
        # added, replaced, updated, renamed, removed, enabled, disabled, unchanged, absent, refused
        self.action = action
        self.names = {name}  # for a rename, the new name, too
        self.warnings = list(warnings)
        self.error: CounselError | None = None

    def refuse(self, error: CounselError) -> None:
        self.action, self.error = "refused", error

    def as_dict(self) -> dict[str, Any]:
        document: dict[str, object] = {
            "agent": self.agent,
            "scope": self.scope,
            "path": self.path,
            "name": self.name,
            "action": self.action,
            "warnings": self.warnings,
        }
        return {**document, "error": self.error.as_dict()} if self.error else document


class Plan:
    """A whole command: a result per table, and the writes. The undo log shows `title`: it has names only, no values."""

    def __init__(self, title: str, results: list[Result], writes: list[PlannedWrite]) -> None:
        self.title = title
        self.results = results
        self.writes = writes

    def raise_if_refused(self) -> None:
        refusals = [result for result in self.results if result.error is not None]
        if not refusals:
            return
        documents = [result.as_dict() for result in self.results]
        first = refusals[0].error
        assert first is not None  # `refusals` have errors
        if len(self.results) == 1:
            raise first
        names = ", ".join(sorted({f"{result.agent} ({result.scope})" for result in refusals}))
        errors = [result.error for result in refusals if result.error is not None]
        hints = [*(error.hint for error in errors), self._agents_hint({result.agent for result in refusals})]
        raise type(first)(
            f"Nothing was written, because it is impossible for {names}. {_once(error.message for error in errors)}",
            hint=_once(hints) or None,
            results=documents,
        )

    def _agents_hint(self, agents: set[str]) -> str:
        rest = dict.fromkeys(result.agent for result in self.results if result.agent not in agents)
        return f"Or change only the others: --agent {','.join(rest)}." if rest else ""

    def diffs(self, *, masked: bool = False) -> list[dict[str, str]]:
        from counsel.servers.diff import unified  # only a dry run needs it

        show = _masked if masked else unified
        return [{"path": str(write.path), "diff": show(write)} for write in self.writes if write.changes]

    def as_dict(self, *, dry_run: bool, operation: str | None = None, masked: bool = False) -> dict[str, Any]:
        document: dict[str, object] = {
            "dry_run": dry_run,
            "id": operation,
            "results": [result.as_dict() for result in self.results],
        }
        return {**document, "diffs": self.diffs(masked=masked)} if dry_run else document


def _masked(write: PlannedWrite) -> str:
    from counsel.servers.diff import unified

    target = write.change.target
    documents = [safewrite.document(data, target.kind, target.path) for data in (write.before, write.after)]
    return secrets.masked_diff(unified(write), [document.value for document in documents])


def _once(sentences: Iterable[str | None]) -> str:
    return " ".join(dict.fromkeys(filter(None, sentences)))


class Planner:
    """Collects steps, and joins those of one file into one write."""

    def __init__(self, workspace: Workspace, reader: Reader) -> None:
        self.workspace = workspace
        self.reader = reader
        self._results: list[Result] = []
        self._edits: dict[Target, list[EditMaker]] = {}
        self._files: dict[str, Target] = {}  # two agents' files can be one, through links
        self._layers: dict[tuple[AgentName, str], dict[str, object]] = {}
        self._steps: dict[tuple[str, Keys, str], ServerTable] = {}

    def step(
        self,
        table: ServerTable,
        name: str,
        action: str,
        edits: Mapping[Target, EditMaker],
        warnings: Sequence[str] = (),
        *,
        new_name: str | None = None,
    ) -> None:
        """Add one table's step. Its edits are tried at once, so that a refusal is known before anything is written."""
        result = Result(table, name, action, warnings)
        result.names.add(new_name or name)
        self._results.append(result)
        first = self._steps.setdefault((os.path.realpath(table.target.path), table.keys, name), table)
        if first is not table and edits.keys() == {table.target}:
            result.warnings.append(f"{first.target.path} is the same file; it is written once.")
            return
        try:
            has_changes = [
                self._has_changes(table, {name, new_name or name}, target, make)
                for target, make in edits.items()
            ]
        except CounselError as error:
            result.refuse(error)
            return
        if not any(has_changes):
            result.action = "unchanged"
        for target, make in edits.items():
            file = self._files.setdefault(os.path.realpath(target.path), target)
            self._edits.setdefault(file, []).append(make)

    def _has_changes(self, table: ServerTable, names: set[str], target: Target, make: EditMaker) -> bool:
        document = self.reader.read(target) or safewrite.document(None, target.kind, target.path)
        edits = [edit for edit in make(document) if not _is_done(document, edit)]
        if edits and FORMATS[table.agent].layered and target == table.target:
            after = value_after(document.value, edits)
            for name in names:
                entry = lookup(after, (*table.keys, name))
                self._layers.setdefault((table.agent, name), {})[str(target.path)] = entry
        return bool(edits)

    def _refuse_broken_layers(self) -> None:
        """Check the merged layers. After all steps, because one command may remove a server from two files."""
        for (agent, name), after in self._layers.items():
            error = codex_layers.refusal(FORMATS[agent], self.workspace, self.reader, name, after)
            for result in self._results:
                if error and result.agent == agent and name in result.names and result.path in after:
                    result.refuse(error)

    def refuse(self, table: ServerTable, name: str, error: CounselError) -> None:
        self.note(table, name, "refused")
        self._results[-1].error = error

    def note(self, table: ServerTable, name: str, action: str) -> None:
        self._results.append(Result(table, name, action))

    def plan(self, title: str) -> Plan:
        self._refuse_broken_layers()
        plan = Plan(title, self._results, [])
        if not any(result.error for result in self._results):
            plan.writes = [self._write(target, makers) for target, makers in self._edits.items()]
        return plan

    def _write(self, target: Target, makers: list[EditMaker]) -> PlannedWrite:
        def edits(document: Meaning) -> list[Edit]:
            all_edits: list[Edit] = []
            for make in makers:
                new_edits = make(document)
                all_edits += new_edits
                document = Meaning(value_after(document.value, new_edits))
            return all_edits

        return safewrite.plan(safewrite.by_edits(target, edits, self.reader), self.reader.bytes_read(target))


def _is_done(document: Meaning, edit: Edit) -> bool:
    return isinstance(edit, Put) and alike(document.get(edit.path), edit.value)
