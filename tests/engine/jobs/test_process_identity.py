"""Which process a name identifies, and whether it still runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from counsel.engine.jobs import process_identity as identity
from counsel.engine.jobs.process_identity import Process


def test_a_process_is_parsed_from_its_name() -> None:
    us = identity.current()
    assert identity.parse(us.name()) == us
    assert us.pid == os.getpid()
    assert us.start
    assert us.machine
    assert us.runs() is True


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_on_linux_the_name_has_the_boot_and_the_namespace() -> None:
    us = identity.current()
    link = Path("/proc/self/ns/pid").readlink()
    assert str(link) == f"pid:[{us.namespace}]"
    assert len(us.boot) == len(us.machine) == 8
    assert us.start == Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


@pytest.mark.parametrize("name", ["", "0", "-5", "x", "²", "1x-a-b-c-d"])
def test_a_name_without_a_process_id_names_no_process(name: str) -> None:
    assert identity.parse(name) is None


def test_a_name_of_an_earlier_release_has_only_the_process_id() -> None:
    assert identity.parse("12") == identity.parse("12-a-b") == Process(12)
    assert identity.parse("12-a-b-c-d") == Process(12, "a", "b", "c", "d")


def test_another_machine_or_container_is_undecided_and_another_boot_has_ended() -> None:
    us = identity.current()
    assert replace(us, machine="other").runs() is None
    assert replace(us, namespace="1").runs() is None
    assert replace(us, boot="other").runs() is False
    assert replace(us, machine="", boot="", namespace="").runs() is True


def test_a_reused_process_id_is_another_process() -> None:
    us = identity.current()
    assert replace(us, start="1").runs() is False
    assert replace(us, start="").runs() is None


def test_an_ended_process_does_not_run_although_its_parent_has_not_reaped_it() -> None:
    us = identity.current()
    with subprocess.Popen(["sleep", "600"]) as child:
        start = identity.started(child.pid)
        assert start
        assert replace(us, pid=child.pid, start=start).runs() is True
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if sys.platform == "linux":
            assert identity.started(child.pid) == "ended"
            assert replace(us, pid=child.pid, start=start).runs() is False
    assert replace(us, pid=child.pid, start="5").runs() is False
    assert identity.started(child.pid) is None


def test_a_process_id_too_large_for_the_kernel_is_undecided() -> None:
    assert replace(identity.current(), pid=1 << 70).runs() is None


def test_without_readable_facts_nothing_is_claimed_about_a_process() -> None:
    assert identity._read("/nonexistent") == ""
    assert identity._short("") == ""
    assert identity._short("a") == "ca978112"


def test_ps_reports_when_a_process_started() -> None:
    """As on macOS, where there is no /proc."""
    own = identity._started_by_ps(os.getpid())
    assert own
    assert own == identity._started_by_ps(os.getpid())
    assert not set(own) & {" ", ":", identity._SEPARATOR}
    with subprocess.Popen(["true"]) as child:
        pass
    assert identity._started_by_ps(child.pid) is None


@pytest.mark.parametrize(("machine_id", "decides"), [("4a5b", "the file"), ("", "the name")])
def test_a_machine_is_known_by_its_id_or_else_by_its_name(
    monkeypatch: pytest.MonkeyPatch, machine_id: str, decides: str
) -> None:
    def machine(name: str, content: str) -> str:
        monkeypatch.setattr(identity, "_read", lambda path: content if path == "/etc/machine-id" else "")
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename=name))
        return identity._machine.__wrapped__()

    first, renamed = machine("one", machine_id), machine("two", machine_id)
    assert first
    assert (first == renamed) is (decides == "the file")
    assert machine("one", "other") != first
