"""The store of images inside a project."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from counsel.agents.images import FOLDER, keep
from counsel.errors import FileNotAllowed
from counsel.types import Image

IMAGE = Image("image/png", b"\x89PNG\r\n\x1a\n rest", "a.png")


def test_images_are_named_by_content_and_private(tmp_path: Path) -> None:
    path = keep(tmp_path, IMAGE)
    assert path.parent == tmp_path / FOLDER
    assert (len(path.stem), path.suffix) == (64, ".png")
    assert path.read_bytes() == IMAGE.data
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert keep(tmp_path, Image("image/png", IMAGE.data, "other name")) == path
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_images_are_ignored_by_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    keep(tmp_path, IMAGE)
    status = subprocess.run(
        ["git", "status", "--short", "--untracked-files=all"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert status.stdout == ""


def test_an_existing_ignore_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".counsel").mkdir()
    (tmp_path / ".counsel" / ".gitignore").write_text("mine\n")
    keep(tmp_path, IMAGE)
    assert (tmp_path / ".counsel" / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize("link", [".counsel", ".counsel/assets"])
def test_nothing_is_written_through_a_link(link: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    project = tmp_path / "project"
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(outside)
    with pytest.raises(FileNotAllowed):
        keep(project, IMAGE)
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_an_image_is_replaced_not_followed(tmp_path: Path) -> None:
    path = keep(tmp_path / ".", IMAGE)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.unlink()
    path.symlink_to(victim)
    assert keep(tmp_path, IMAGE) == path
    assert victim.read_text() == "precious"
    assert path.read_bytes() == IMAGE.data
    assert not path.is_symlink()


def test_an_incomplete_image_is_written_again(tmp_path: Path) -> None:
    path = keep(tmp_path, IMAGE)
    path.write_bytes(b"half")
    assert keep(tmp_path, IMAGE).read_bytes() == IMAGE.data


def test_an_image_type_that_agents_do_not_support_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotAllowed):
        keep(tmp_path, Image("image/svg+xml", b"<svg/>", "a.svg"))


def test_a_project_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(FileNotAllowed, match="could not be stored") as excinfo:
        keep(tmp_path, IMAGE)
    assert excinfo.value.fields["file"] == str(tmp_path)
