"""Which files are sent: folders, kinds and sizes."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.context import allowed_folders, build, files
from counsel.errors import FileNotAllowed, FileTooLarge, InvalidArgument, NotFound
from support.context_files import ask, refused


def test_relative_names_are_resolved_in_the_folder_then_in_the_roots(
    project: Path, caller: Callable[..., Caller]
) -> None:
    root = project.parent / "root"
    root.mkdir()
    (project / "a").write_text("mine\n")
    (root / "a").write_text("other\n")
    (root / "b").write_text("only here\n")
    prompt = ask(caller(roots=[root]), "a", "b").prompt
    assert "mine" in prompt
    assert "only here" in prompt
    assert "other" not in prompt


def test_a_relative_name_needs_a_folder(caller: Callable[..., Caller]) -> None:
    assert "CLIENT_CWD" in str(refused(InvalidArgument, caller(cwd=Path()), "a"))


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../outside.txt", "link", "dirlink/outside.txt", "loop/../../outside.txt"]
)
def test_nothing_outside_is_sent(project: Path, caller: Callable[..., Caller], name: str) -> None:
    (project.parent / "outside.txt").write_text("outside\n")
    (project / "link").symlink_to("../outside.txt")
    (project / "dirlink").symlink_to("..")
    (project / "loop").mkdir()
    error = refused(FileNotAllowed, caller(), name)
    assert error.fields["file"] == name
    assert str(project) in str(error)
    assert "COUNSEL_ALLOWED_DIRS" in str(error)


def test_a_folder_that_is_also_a_root_is_named_once(project: Path, caller: Callable[..., Caller]) -> None:
    error = refused(FileNotAllowed, caller(roots=[project]), "/etc/passwd")
    assert str(error).count(str(project)) == 1


def test_whether_an_outside_file_exists_is_not_revealed(project: Path, caller: Callable[..., Caller]) -> None:
    refused(FileNotAllowed, caller(), "../nothing.txt")


def test_a_user_can_allow_more(project: Path, caller: Callable[..., Caller]) -> None:
    (project.parent / "outside.txt").write_text("outside\n")
    for setting in ("~/outside.txt", str(project.parent)):
        assert "outside" in ask(caller(COUNSEL_ALLOWED_DIRS=setting), "../outside.txt").prompt


def test_the_root_of_the_disk_is_not_a_project(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "a").write_text("text\n")
    assert "no folder" in str(refused(FileNotAllowed, caller(cwd=Path("/")), str(project / "a")))


def test_hidden_places_of_the_home_folder_stay_private(project: Path, caller: Callable[..., Caller]) -> None:
    home = project.parent
    (home / ".mozilla").mkdir()
    (home / ".mozilla" / "cookies").write_text("c\n")
    (home / "notes").write_text("n\n")
    refused(FileNotAllowed, caller(cwd=home), ".mozilla/cookies")
    assert "n\n" in ask(caller(cwd=home), "notes").prompt
    assert "c\n" in ask(caller(cwd=home / ".mozilla"), "cookies").prompt


def test_a_folder_reached_by_a_symlink_is_the_same_folder(
    project: Path, caller: Callable[..., Caller]
) -> None:
    (project / "a").write_text("text\n")
    (project.parent / "alias").symlink_to("project")
    assert "text" in ask(caller(cwd=project.parent / "alias"), "a").prompt


def test_a_symlink_swapped_while_it_is_opened_leads_nowhere(
    project: Path, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is made on the descriptor, so there is no moment between check and use."""
    (project.parent / "outside.txt").write_text("outside\n")
    inside, link = project / "inside.txt", project / "link"
    inside.write_text("inside\n")
    link.symlink_to("inside.txt")
    real_pin = allowed_folders._pin

    def swap_then_pin(path: Path) -> int:
        pin = real_pin(path)
        if path == link:
            link.unlink()
            link.symlink_to("../outside.txt")
        return pin

    monkeypatch.setattr(allowed_folders, "_pin", swap_then_pin)
    assert "| inside" in ask(caller(), "link").prompt
    refused(FileNotAllowed, caller(), "link")


def test_a_file_moved_away_while_it_is_opened_is_not_sent(
    project: Path, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "a"
    path.write_text("text\n")
    real_pin = allowed_folders._pin

    def pin_then_move(target: Path) -> int:
        pin = real_pin(target)
        if target == path:
            path.unlink()
        return pin

    monkeypatch.setattr(allowed_folders, "_pin", pin_then_move)
    refused(NotFound, caller(), "a")


def test_a_missing_file_says_where_it_was_looked_for(project: Path, caller: Callable[..., Caller]) -> None:
    error = refused(NotFound, caller(), "none.txt")
    assert str(project / "none.txt") in str(error)


def test_pipes_sockets_and_folders_are_refused_without_waiting(
    project: Path, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project / "pipe")
    (project / "folder").mkdir()
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(project)  # a socket's path must be short
    listening.bind("socket")
    try:
        for name, word in (("pipe", "named pipe"), ("folder", "folder"), ("socket", "socket")):
            assert word in refused(InvalidArgument, caller(), name).message
    finally:
        listening.close()


def test_a_device_is_refused(caller: Callable[..., Caller]) -> None:
    assert "device" in refused(InvalidArgument, caller(COUNSEL_ALLOWED_DIRS="/dev"), "/dev/zero").message


@pytest.mark.parametrize("name", ["a\0b", "", "  ", "\ud800", "x" * 5000])
def test_impossible_names_are_refused(caller: Callable[..., Caller], name: str) -> None:
    refused(InvalidArgument, caller(), name)


def test_a_symlink_to_itself_is_refused(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "loop").symlink_to("loop")
    refused(InvalidArgument, caller(), "loop")


def test_the_size_limit(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "just").write_text("x" * 100)
    (project / "over").write_text("x" * 101)
    small_limit = caller(COUNSEL_MAX_FILE_BYTES="100")
    assert ask(small_limit, "just").sources[0].size == 100
    error = refused(FileTooLarge, small_limit, "over")
    assert (error.fields["file"], error.fields["size"], error.fields["limit"]) == ("over", 101, 100)


def test_a_file_that_claims_to_be_empty_is_bounded_too(caller: Callable[..., Caller]) -> None:
    """Files in /proc report size 0 and contain more."""
    small_limit = caller(COUNSEL_ALLOWED_DIRS="/proc", COUNSEL_MAX_FILE_BYTES="10")
    refused(FileTooLarge, small_limit, "/proc/self/status")


def test_the_number_of_files_is_limited(project: Path, caller: Callable[..., Caller]) -> None:
    assert "COUNSEL_MAX_FILES" in str(refused(InvalidArgument, caller(COUNSEL_MAX_FILES="2"), "a", "b", "c"))


def test_the_sum_of_all_files_is_limited(
    project: Path, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent counts, not what is read: line numbers make a file of empty lines nine times as long."""
    monkeypatch.setattr(build, "MAX_TOTAL", 1_000)
    for name in "ab":
        (project / name).write_text("x" * 500)
    (project / "c").write_text("\n" * 500)
    assert ask(caller(), "a")
    refused(FileTooLarge, caller(), "a", "b")
    refused(FileTooLarge, caller(), "c")


def test_every_bad_file_is_named_and_nothing_is_sent(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "good").write_text("fine\n")
    (project / ".env").write_text("A=1\n")
    error = refused(FileNotAllowed, caller(), "good", ".env", "none", "/etc/passwd")
    assert error.fields["files"] == [".env", "none", "/etc/passwd"]
    assert all(name in error.message for name in error.fields["files"])


def test_an_unreadable_file_is_named(
    project: Path, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a").write_text("text")

    def denied(pin: int) -> int:  # root reads every file, so its mode alone would show nothing in a container
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(allowed_folders, "_readable", denied)
    assert "permission" in refused(FileNotAllowed, caller(), "a").message


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a.py{10:50}", "a.py"),
        ("a.py{10:}", "a.py"),
        ("a.py{:5}", "a.py"),
        ("a.py", "a.py"),
        ("a{b}", "a{b}"),
    ],
)
def test_a_name_without_its_line_range(name: str, plain: str) -> None:
    assert files.without_range(name) == plain
