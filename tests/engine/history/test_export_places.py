"""Where a conversation may be exported to, decided before a model is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.history import export_files
from counsel.engine.store.sqlite.lookup import _prefix_condition
from counsel.errors import CounselError, InvalidArgument
from counsel.settings import Settings


@pytest.mark.parametrize(
    ("folder", "target"), [(True, ""), ("notes", "notes"), ("notes/../deep/er", "deep/er"), (".", "")]
)
def test_a_folder_inside_the_callers_own(tmp_path: Path, folder: bool | str, target: str) -> None:
    real, root = export_files.destination(folder, Caller(cwd=tmp_path))
    assert (real, root) == (tmp_path / target, tmp_path)


def test_a_folder_that_was_allowed(tmp_path: Path) -> None:
    own, other_folder = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other_folder.mkdir()
    with pytest.raises(CounselError):
        export_files.destination(str(other_folder), Caller(cwd=own))
    caller = Caller(cwd=own, settings=Settings(allowed_dirs=(str(other_folder),)))
    assert export_files.destination(str(other_folder / "deep"), caller) == (
        other_folder / "deep",
        other_folder,
    )


@pytest.mark.parametrize("folder", ["..", "/", "link/deep"])
def test_a_folder_elsewhere_is_refused(tmp_path: Path, folder: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "link").symlink_to(tmp_path)
    with pytest.raises(CounselError):
        export_files.destination(folder, Caller(cwd=own))


def test_a_caller_without_a_folder_has_none_to_export_to() -> None:
    with pytest.raises(InvalidArgument, match="no folder to export to"):
        export_files.destination(True, Caller(cwd=Path("relative")))


def test_a_prefix_ends_before_the_next_letter() -> None:
    assert _prefix_condition("id", "") == ("1", ())
    assert _prefix_condition("id", "job_a1") == ("id >= ? AND id < ?", ("job_a1", "job_a2"))
