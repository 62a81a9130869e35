"""Some of the engine's tests once more, on PostgreSQL. `make test-postgres` runs all that can run there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.store import DATABASE
from counsel.requests import ChatRequest
from engine.consult.test_chat import (  # noqa: F401 - collected again here
    test_cancel_stops_the_upstream_call,
    test_five_turns_at_once_on_one_conversation_are_all_kept,
    test_the_same_key_is_the_same_job,
    test_the_second_turn_sends_the_whole_history_after_a_restart,
    test_two_engines_on_one_conversation_take_turns,
)
from engine.consult.test_consensus import (  # noqa: F401 - they run again here
    test_everyone_answers_then_refines_having_read_the_others,
    test_two_consensus_interleaved_never_mix,
)
from engine.jobs.test_cancel import test_an_orphan_is_cancelled_by_any_process  # noqa: F401 - they run again here
from engine.jobs.test_races import (  # noqa: F401 - they run again here
    test_a_cancel_from_another_process_stops_the_job,
    test_a_job_whose_keys_never_come_back_fails_in_the_end,
    test_one_call_sent_twice_at_once_is_made_once,
)
from engine.jobs.test_recovery import (  # noqa: F401 - they run again here
    test_a_synchronous_call_continues_after_an_orderly_stop_without_its_client,
)
from engine.jobs.test_replay import test_another_engine_replays_a_slow_answer_in_full  # noqa: F401 - they run again here
from engine.jobs.test_turns import (  # noqa: F401 - they run again here
    impatient,
    test_a_turn_waits_for_one_that_another_process_adopts,
    test_behind_a_job_without_keys_a_caller_learns_what_it_waits_for,
    test_three_turns_through_two_processes_keep_their_order,
)

pytestmark = [pytest.mark.postgres, pytest.mark.thorough]


async def test_an_engine_on_postgresql_has_no_database_file(
    engine: Engine, home: Path, caller: Callable[..., Caller]
) -> None:
    job = await engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller())
    await engine.wait(job)
    assert await engine.store.existing_jobs([job]) == {job}
    assert not (home / DATABASE).exists()
