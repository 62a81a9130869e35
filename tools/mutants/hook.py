"""Runs at the start of every Python of a checkout: records executed lines for the test that `.mutants/record` names."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent.parent.parent
_RECORD = _FOLDER / ".mutants" / "record"


def _recorder(test: str) -> object:
    import coverage

    recorder = coverage.Coverage(
        data_file=str(_FOLDER / ".mutants" / "lines"),
        data_suffix=True,
        config_file=False,
        source=[str(_FOLDER / "src")],
        context=None,
        concurrency=["thread"],
    )
    recorder.set_option("run:sigterm", True)
    recorder.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported", "no-ctracer"])
    recorder.set_option("run:patch", ["_exit"])
    recorder._auto_save = True  # noqa: SLF001 (as its own process_startup does)
    recorder.start()
    recorder.switch_context(test)
    return recorder


def switch(test: str) -> None:
    """Record further lines for this test, in processes that start later, too."""
    if _active is not None:
        _RECORD.write_text(test)
        _active.switch_context(test)  # type: ignore[attr-defined]


_active = _recorder(_RECORD.read_text()) if _RECORD.exists() else None
