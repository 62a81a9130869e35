"""`from counsel.sync import Counsel`: without `await`, in scripts, in notebooks and in threads."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from counsel import CounselError
from counsel.job_events import TextAdded
from counsel.sync import Counsel
from fake import FakeProcess


@pytest.fixture
def env(fake_process: FakeProcess, tmp_path: Path) -> dict[str, str]:
    return {
        "COUNSEL_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake_process.v1,
    }


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("counsel")]


def open_files(folder: Path) -> set[str]:
    """Sockets of this process, and files in this folder."""
    links = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            link = str(entry.readlink())
            if link.startswith(("socket:", str(folder))):
                links.add(link)
    return links


def test_ask_stream_consensus_and_jobs_and_nothing_is_left(env: dict[str, str], tmp_path: Path) -> None:
    before = open_files(tmp_path) if sys.platform == "linux" else set()
    with Counsel(env=env, cwd=tmp_path) as c:
        answer = c.ask("hello", model="gpt-5")
        assert (answer.text, answer.usage.output) == ("gpt-5 says: hello", 3)
        events = list(c.stream("again", model="gpt-5", continuation_id=answer.continuation_id))
        texts = [event.text for event in events if isinstance(event, TextAdded)]
        assert ("".join(texts), events[-1].kind) == ("gpt-5 says: again", "done")
        both = c.consensus("which?", models=["gpt-5", "o3"], cross_feedback=False)
        assert set(both.answers) == {"gpt-5", "o3"}
        job = c.submit("later", model="gpt-5")
        assert c.wait(job).text == "gpt-5 says: later"
        assert c.status(job).is_done
        assert c.cancel(job).status == "completed"
        with pytest.raises(CounselError, match="temperature"):
            c.ask("hello", temperature=7)
        assert "counsel-sync" in own_threads()
    assert own_threads() == []
    if sys.platform == "linux":
        assert open_files(tmp_path) <= before
    assert c.ask("once more", model="gpt-5").text == "gpt-5 says: once more"  # it opens again
    c.close()
    c.close()
    assert own_threads() == []


async def test_it_works_inside_a_running_event_loop(env: dict[str, str], tmp_path: Path) -> None:
    """As in a notebook's cell, which runs on Jupyter's loop."""
    assert asyncio.get_running_loop().is_running()
    with Counsel(env=env, cwd=tmp_path) as c:
        assert c.ask("hello", model="gpt-5").text == "gpt-5 says: hello"
        assert [event.kind for event in c.stream("hello", model="gpt-5")][-1] == "done"


def test_leaving_a_stream_early_stops_the_call(
    env: dict[str, str], tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(hang_after=1)
    with Counsel(env=env, cwd=tmp_path) as c:
        for event in c.stream("hello", model="gpt-5"):
            if isinstance(event, TextAdded):
                break
        gc.collect()
        fake_process.wait_for(state="disconnected")


def test_a_stream_may_outlive_its_client(env: dict[str, str], tmp_path: Path) -> None:
    c = Counsel(env=env, cwd=tmp_path)
    events = c.stream("hello", model="gpt-5")
    assert next(events).kind == "started"
    c.close()
    events.close()
    assert own_threads() == []


def test_several_threads_share_one_client(env: dict[str, str], tmp_path: Path) -> None:
    with Counsel(env=env, cwd=tmp_path) as c, ThreadPoolExecutor(4) as pool:
        prompts = [f"question {number}" for number in range(4)]
        answers = list(pool.map(lambda prompt: c.ask(prompt, model="gpt-5").text, prompts))
    assert answers == [f"gpt-5 says: {prompt}" for prompt in prompts]
    assert own_threads() == []


def test_a_client_that_is_forgotten_is_closed(env: dict[str, str], tmp_path: Path) -> None:
    c = Counsel(env=env, cwd=tmp_path)
    c.ask("hello", model="gpt-5")
    del c
    gc.collect()
    assert own_threads() == []


SCRIPT = """
from counsel.sync import Counsel
c = Counsel()
print(c.ask("hello", model="gpt-5").text, flush=True)
{rest}
"""


def run(env: dict[str, str], tmp_path: Path, rest: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(rest=rest)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_script_that_does_not_close_it_ends_all_the_same(env: dict[str, str], tmp_path: Path) -> None:
    with run(env, tmp_path) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "gpt-5 says: hello\n", "")


def test_ctrl_c_stops_the_call(env: dict[str, str], tmp_path: Path, fake_process: FakeProcess) -> None:
    fake_process.script(times=1)
    fake_process.script(hang_after=1)
    with run(env, tmp_path, 'c.ask("wait", model="gpt-5")') as process:
        fake_process.wait_for(contains="wait", deltas=1, timeout=60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    fake_process.wait_for(contains="wait", state="disconnected")
