"""Ids are unguessable, and neighbours if they were made at the same time."""

from __future__ import annotations

import os
import time
import uuid

import pytest

from counsel import random_ids


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def test_an_id_is_a_uuid_of_version_8() -> None:
    ids = [uuid.UUID(random_ids.uuid8()) for _ in range(300)]
    assert {(number.version, number.variant) for number in ids} == {(8, uuid.RFC_4122)}
    assert len(set(ids)) == len(ids)


def test_ids_of_one_moment_begin_alike_and_later_ones_come_behind(clock: list[float]) -> None:
    moments = []
    for _ in range(5):
        moments.append({random_ids.uuid8()[:4], random_ids.key()[:4]})
        clock[0] += 1 / 16
    first = int(moments[0].pop(), 16)
    assert moments[1:] == [{f"{first + ticks:04x}"} for ticks in range(1, 5)]


def test_the_rest_of_an_id_is_random(clock: list[float]) -> None:
    """This includes the eight characters in lists: jobs that were started together look different."""
    ids, keys = [random_ids.uuid8() for _ in range(20)], [random_ids.key() for _ in range(20)]
    assert len({name[4:8] for name in ids}) > 15
    assert len({key.partition(".")[2] for key in keys}) == 20
    assert {len(key) for key in keys} == {33}


def test_a_child_does_not_make_its_parents_ids() -> None:
    random_ids.key()
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.write(theirs, random_ids.key().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(ours, 100).decode()[5:] not in {random_ids.key()[5:] for _ in range(128)}
    os.close(ours)
    os.close(theirs)
