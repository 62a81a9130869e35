"""What the front sends to the daemon for a request, and its answer when no daemon can be reached."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from counsel import pending_calls
from counsel.front.pending_request import PendingRequest, Progress
from counsel.front.protocol import ProtocolState

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'
LIST = b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}'
REASON = "it does not answer"


def failures(request: PendingRequest) -> list[dict[str, Any]]:
    return request.failures(REASON, ProtocolState([]))


def result(request: PendingRequest) -> dict[str, Any]:
    (failure,) = failures(request)
    assert (failure["jsonrpc"], failure["id"]) == ("2.0", 1)
    tool_result: dict[str, Any] = failure["result"]
    assert tool_result["isError"] is True
    content = tool_result["structuredContent"]
    assert content["code"] == "INTERNAL"
    assert content["error"] == f"counsel's daemon cannot be reached: {REASON}."
    assert tool_result["content"] == [
        {"type": "text", "text": f"INTERNAL: {content['error']} {content['hint']}"}
    ]
    return dict(content)


def test_a_request_is_new_once_and_keeps_its_key() -> None:
    request = PendingRequest(1, CALL)
    head, line, rest = request.to_send().split(b"\n")
    assert (line, rest) == (CALL, b"")
    first = json.loads(head.removeprefix(b"@"))
    again = json.loads(request.to_send().split(b"\n")[0].removeprefix(b"@"))
    assert first == {"key": request.key, "waited": first["waited"], "new": True}
    assert "new" not in again
    assert again["key"] == first["key"]
    assert PendingRequest(1, CALL).key != request.key


def test_how_long_it_has_waited_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    request = PendingRequest(1, CALL)
    monkeypatch.setattr(time, "monotonic", lambda: request.began + 2.5)
    assert b'"waited":2.5' in request.to_send()


def test_which_jobs_a_daemon_may_have_made_of_it() -> None:
    call = PendingRequest(1, CALL)
    assert call.jobs() == []
    call.to_send()
    assert call.jobs() == [pending_calls.job_id(call.key)]
    batch = PendingRequest([1, 2], CALL)
    batch.to_send()
    assert batch.jobs() == [pending_calls.job_id(f"{batch.key}.{number}") for number in (0, 1)]
    listing = PendingRequest(1, LIST)
    listing.to_send()
    assert listing.jobs() == []


def test_a_call_that_was_never_sent_asked_nothing() -> None:
    content = result(PendingRequest(1, CALL))
    assert content["hint"] == "Nothing was asked. Run `counsel doctor`, then ask again."
    assert "job_id" not in content


@pytest.mark.parametrize(
    ("noted", "job", "hint"),
    [
        (False, "", "The call was interrupted; {status} shows whether it continues."),
        (False, "job_9", "The call was interrupted; {status} shows whether it continues."),
        (True, "", "If the job had started, it continues as soon as a daemon runs: {status}."),
        (True, "job_9", "The job is kept and continues as soon as a daemon runs: {status}."),
    ],
)
def test_a_call_that_was_sent_names_its_job(noted: bool, job: str, hint: str) -> None:
    request = PendingRequest(1, CALL)
    request.to_send()
    request.noted, request.job = noted, job
    content = result(request)
    name = job or pending_calls.job_id(request.key)
    assert content["job_id"] == name
    assert content["hint"] == hint.format(status=f"check_status with continuation_id {name}")


def test_each_request_of_a_batch_is_answered() -> None:
    request = PendingRequest([1, "b"], CALL)
    assert [failure["id"] for failure in failures(request)] == [1, "b"]
    request.to_send()
    request.job = "job_9"
    jobs = [failure["result"]["structuredContent"]["job_id"] for failure in failures(request)]
    assert jobs == request.jobs()
    (response,) = failures(PendingRequest(3, LIST))
    assert response["id"] == 3
    assert response["error"]["message"] == f"counsel's daemon cannot be reached: {REASON}."


def test_progress_grows_across_daemons() -> None:
    def adjusted_progress(progress: Progress, number: float) -> float:
        message: dict[str, Any] = {"params": {"progress": number}}
        line = progress.adjusted(b"as it came", message)
        assert (line == b"as it came") == (progress.offset == 0)
        return float(message["params"]["progress"])

    progress = Progress()
    assert [adjusted_progress(progress, number) for number in (1, 2)] == [1, 2]
    progress.restart()
    assert [adjusted_progress(progress, number) for number in (1, 3)] == [3, 5]
    progress.restart()
    assert adjusted_progress(progress, 1) == 6


# ── notes ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_jobs_name_follows_from_its_key_and_is_a_uuid() -> None:
    name = pending_calls.job_id("k")
    assert name == pending_calls.job_id("k") != pending_calls.job_id("l")
    parts = name.removeprefix("job_").split("-")
    assert [len(part) for part in parts] == [8, 4, 4, 4, 12]
    assert parts[2][0] == "4"
    assert parts[3][0] in "89ab"


def test_a_note_is_taken_once_and_forgotten_after_a_week(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert not pending_calls.take(home, "job_1")
    assert pending_calls.note(home, "job_1")
    assert pending_calls.take(home, "job_1")
    assert not pending_calls.take(home, "job_1")
    for name, age in (("job_old", pending_calls.STALE + 60), ("job_new", pending_calls.STALE - 60)):
        assert pending_calls.note(home, name)
        os.utime(tmp_path / "run" / "kept" / name, (time.time() - age,) * 2)
    pending_calls.sweep(home)
    assert not pending_calls.take(home, "job_old")
    assert pending_calls.take(home, "job_new")
    pending_calls.sweep(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    assert not pending_calls.note(str(tmp_path / "file"), "job_1")
