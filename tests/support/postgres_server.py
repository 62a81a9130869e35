"""A scratch PostgreSQL server for tests: its own folder, a Unix socket only, an ordinary user, ended with the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

_SHARED = "counsel"
# Rows of small tables are deleted in a millisecond; a database of its own takes each test half a second.
_CLEAR = """
    DO $$ DECLARE name text; BEGIN
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid != pg_backend_pid();
        FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
            WHERE schemaname IN ('counsel', 'counsel_queue') AND tablename != 'migrations' LOOP
            EXECUTE format('DELETE FROM %s', name);
        END LOOP;
    END $$
"""
_SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "listen_addresses=",
    "track_commit_timestamp=on",  # records when a write became visible, for tests of the order of writes
    "max_connections=100",
    "shared_buffers=16MB",
)
_SECONDS = 120.0  # for a start on a busy machine


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`. Debian has them outside of PATH."""
    if inside := shutil.which("initdb"):
        return Path(inside).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    return folders[-1] if folders else None


def required_programs() -> Path:
    """The folder. Without PostgreSQL the test is skipped; in CI it fails."""
    folder = programs()
    if folder is None:
        message = "PostgreSQL is not installed (apt install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


class PostgresServer:
    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="counsel-pg-", dir="/tmp"))  # a socket's path is short
        self._user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(self._folder, "nobody", "nogroup")
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        try:
            self._create()
            self.start()
            self.wait()
        except BaseException:
            self.end()
            raise

    def _create(self) -> None:
        locale = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
        self._run(
            "initdb", "-D", "data", "-U", "counsel", "-A", "trust", "-E", "UTF8", "--locale", locale, "-N"
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Call this on the main thread: the server ends with the thread that started it."""
        options = [part for setting in _SETTINGS for part in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_with_us(), self._programs / "postgres", "-D", "data", "-k", self._folder, *options],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                **self._user,  # type: ignore[call-overload]
            )

    def wait(self) -> None:
        """Wait until it accepts connections."""
        assert self._process is not None
        until = time.monotonic() + _SECONDS
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < until, (self._folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop at once: sessions end without an answer, as in a crash."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_SECONDS)

    def end(self) -> None:
        if self._process is not None:
            self.stop()
        shutil.rmtree(self._folder)

    def url(self, database: str) -> str:
        return f"postgresql://counsel@/{database}?host={self._folder}"

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a database without tables."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextlib.contextmanager
    def migrated(self) -> Iterator[str]:
        """The URL of a database with counsel's tables, and nothing in them; the same for one test after another."""
        if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{_SHARED}'"):
            from counsel.engine.store.postgres import schema

            self.execute(f"CREATE DATABASE {_SHARED}")
            with psycopg.connect(self.url(_SHARED)) as connection:
                schema.migrate(connection, self.url(_SHARED))
        try:
            yield self.url(_SHARED)
        finally:
            self.execute(_CLEAR, _SHARED)

    def _run(self, program: str, *arguments: str) -> None:
        process = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            capture_output=True,
            check=False,
            text=True,
            **self._user,  # type: ignore[call-overload]
        )
        assert process.returncode == 0, process.stderr


def _with_us() -> list[str]:
    """A prefix that ends the server when the tests are killed."""
    return ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
