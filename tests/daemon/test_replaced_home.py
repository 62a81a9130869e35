"""COUNSEL_HOME, its locks and its sockets deleted, moved, replaced and restored under running daemons and clients."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel import locks, run_paths
from counsel.daemon import files as daemon_files
from support.stdio_client import StdioClient, daemon_pid, kill_daemon, process_ends

pytestmark = pytest.mark.slow  # left out of `make check`


async def start_client(home: Path) -> tuple[StdioClient, int]:
    """A client, and the pid of its daemon."""
    client = await StdioClient(home, COUNSEL_DAEMON_IDLE_SECONDS="60").__aenter__()
    await client.initialize()
    await client.text("echo")
    pid = daemon_pid(home)
    assert pid is not None
    return client, pid


def delete(home: Path) -> None:
    shutil.rmtree(home)


def restore(home: Path) -> None:
    """Restore from a backup: the same names and times, but new files."""
    shutil.copytree(home, home.with_name("backup"), ignore=shutil.ignore_patterns("*.sock"))
    shutil.rmtree(home)
    home.with_name("backup").rename(home)


def move(home: Path) -> None:
    home.rename(home.with_name("moved"))


def replace_by_a_link_to_another(home: Path) -> None:
    home.rename(home.with_name("moved"))
    home.with_name("other").mkdir()
    home.symlink_to(home.with_name("other"))


@pytest.mark.parametrize("change", [delete, restore, move, replace_by_a_link_to_another])
async def test_a_replaced_home_gets_a_new_daemon_and_the_old_one_leaves_it_alone(
    home: Path, change: Callable[[Path], None]
) -> None:
    client, first = await start_client(home)
    os.kill(first, signal.SIGSTOP)  # it notices the change only after the next daemon has started
    change(home)
    async with StdioClient(home, cwd=home.parent, COUNSEL_DAEMON_IDLE_SECONDS="60") as new:
        await new.initialize()
        assert await new.text("echo new") == "echo new"
        second = daemon_pid(home)
        files = {path: locks.identity(path) for path in (home / "run").iterdir()}
        os.kill(first, signal.SIGCONT)
        await process_ends(first)
        assert {path: locks.identity(path) for path in (home / "run").iterdir()} == files
        assert second == daemon_pid(home) != first
        assert await new.text("echo on") == "echo on"
        assert await client.text("echo the old client, too") == "echo the old client, too"
    await client.__aexit__()


async def test_a_moved_home_is_free_for_a_daemon_at_its_new_place(home: Path) -> None:
    client, first = await start_client(home)
    move(home)
    await process_ends(first)
    async with StdioClient(new_home := home.with_name("moved")) as new:
        await new.initialize()
        assert await new.text("echo") == "echo"
        kill_daemon(new_home)
    assert not home.exists()
    home.mkdir()
    await client.__aexit__()


async def test_a_link_to_the_same_home_changes_nothing(home: Path) -> None:
    client, first = await start_client(home)
    move(home)
    home.symlink_to(home.with_name("moved"))
    (home / "run" / "daemon.sock").unlink()  # when it is recreated, the daemon has checked its files
    async with asyncio.timeout(30):
        while not (home / "run" / "daemon.sock").exists():
            await asyncio.sleep(0.02)
    assert daemon_pid(home) == first
    await client.__aexit__()


async def test_a_call_that_runs_while_the_home_is_deleted_is_answered_and_the_next_is_for_the_new_one(
    home: Path, tmp_path: Path
) -> None:
    client, first = await start_client(home)
    answer = client.begin("chat", prompt=f"later {tmp_path / 'now'}")
    await client.ask("resources/list")
    delete(home)
    async with StdioClient(home, cwd=tmp_path) as new:
        await new.initialize()
        assert await new.text("echo") == "echo"
        second = daemon_pid(home)
        assert second not in {None, first}
        waiting = client.begin("chat", prompt="env COUNSEL_HOME")
        (tmp_path / "now").touch()
        assert (await asyncio.wait_for(answer, 30))["result"]["structuredContent"]["content"].startswith(
            "key "
        )
        document = (await asyncio.wait_for(waiting, 30))["result"]["structuredContent"]
        assert document["content"].startswith(str(home))
        await process_ends(first)
        assert daemon_pid(home) == second
    await client.__aexit__()


def remove_socket(run_folder: Path) -> None:
    (run_folder / "daemon.sock").unlink()


def replace_socket(run_folder: Path) -> None:
    (run_folder / "daemon.sock").unlink()
    (run_folder / "daemon.sock").write_text("a file of somebody's")


def remove_lock(run_folder: Path) -> None:
    (run_folder / "daemon.lock").unlink()


def remove_run(run_folder: Path) -> None:
    shutil.rmtree(run_folder)


@pytest.mark.parametrize("remove", [remove_socket, replace_socket, remove_lock, remove_run])
async def test_a_deleted_file_is_recreated_and_there_is_one_daemon(
    home: Path, remove: Callable[[Path], None]
) -> None:
    client, first = await start_client(home)
    remove(home / "run")
    async with asyncio.timeout(30):
        while daemon_pid(home) != first or not (home / "run" / "daemon.sock").is_socket():
            await asyncio.sleep(0.02)
    async with StdioClient(home) as new:
        await new.initialize()
        assert await new.text("echo new") == "echo new"
        assert await client.text("echo old") == "echo old"
    assert daemon_pid(home) == first
    await client.__aexit__()


@pytest.mark.parametrize("remove", [remove_socket, remove_lock, remove_run])
async def test_a_client_that_comes_before_that_is_served_and_one_daemon_remains(
    home: Path, remove: Callable[[Path], None]
) -> None:
    client, first = await start_client(home)
    remove(home / "run")
    async with StdioClient(home, COUNSEL_DAEMON_IDLE_SECONDS="60") as new:
        await new.initialize()
        assert await new.text("echo new") == "echo new"
        assert await client.text("echo old") == "echo old"
        async with asyncio.timeout(30):
            while (now := daemon_pid(home)) is None:
                await asyncio.sleep(0.1)
        if now != first:
            await process_ends(first)
        assert await new.text("echo on") == "echo on"
    await client.__aexit__()


async def test_the_folder_in_tmp_is_recreated_after_a_cleaner(tmp_path: Path) -> None:
    (home := tmp_path / ("x" * 100)).mkdir()
    client, first = await start_client(home)
    short = Path(run_paths.socket(str(home)))
    shutil.rmtree(short.parent)
    async with asyncio.timeout(30):
        while not short.exists():
            await asyncio.sleep(0.02)
    assert daemon_pid(home) == first
    await client.__aexit__()
    kill_daemon(home, signal.SIGTERM)
    await process_ends(first)
    assert not short.exists()


def test_files_are_touched_so_that_tmp_cleaners_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = daemon_files.DaemonFiles(tmp_path)
    files.take()
    with files.listen():
        os.utime(files.socket, (0, 0))
        monkeypatch.setattr(daemon_files, "TOUCH", 0)
        assert files.state() == "ours"
        assert Path(files.socket).stat().st_mtime > 0
    files.release()


def test_a_recreated_lock_leaves_no_descriptor_open(tmp_path: Path) -> None:
    files = daemon_files.DaemonFiles(tmp_path)
    files.take()
    before = len(list(Path("/dev/fd").iterdir()))
    (tmp_path / "run" / "daemon.lock").unlink()
    assert files.regain()
    assert len(list(Path("/dev/fd").iterdir())) == before
    files.release()


def test_a_socket_that_is_another_daemons_is_not_removed(tmp_path: Path) -> None:
    old, new = daemon_files.DaemonFiles(tmp_path), daemon_files.DaemonFiles(tmp_path)
    old.take()
    with old.listen():
        (tmp_path / "run" / "daemon.lock").unlink()
        new.take()
        old.remove_socket()  # the socket is still its own, but the path is the new daemon's
        assert Path(old.socket).exists()
        with new.listen():
            old.remove_socket()
            old.release()
            assert new.state() == "ours"
            new.remove_socket()
            assert not Path(new.socket).exists()
    new.release()


def test_what_killed_daemons_left_is_swept(tmp_path: Path) -> None:
    files = daemon_files.DaemonFiles(tmp_path)
    leftover, unrelated = Path(f"{files.socket}.12345"), Path(f"{files.socket}.kept")
    leftover.touch()
    unrelated.touch()
    files.take()
    files.listen().close()
    assert not leftover.exists()
    assert unrelated.exists()
    files.release()


async def test_a_daemon_that_ends_on_request_removes_its_own_socket(home: Path) -> None:
    client, first = await start_client(home)
    kill_daemon(home, signal.SIGTERM)
    await process_ends(first)
    assert not (home / "run" / "daemon.sock").exists()
    assert (home / "run" / "daemon.lock").exists()
    await client.__aexit__()
