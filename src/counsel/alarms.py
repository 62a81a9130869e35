"""Deadlines by the event loop's clock (`time.monotonic`) that are hardly ever reached, behind one timer of the loop.

A timer of the loop for each deadline costs 8 µs of CPU: an object, a place in a heap ordered by a Python method, and
its removal after it is cancelled. Here a deadline is an entry of a set.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Alarm:
    __slots__ = ("_alarms", "call", "when")

    def __init__(self, alarms: Alarms, when: float, call: Callable[[], None]) -> None:
        self._alarms, self.when, self.call = alarms, when, call

    def cancel(self) -> None:
        self._alarms.pending.discard(self)
        self.call = _nothing  # breaks a cycle: `call` may refer to this alarm


def _nothing() -> None:
    pass


class Alarms:
    """The alarms of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pending: set[Alarm] = set()
        self.next = math.inf  # when the timer rings
        self._timer: asyncio.TimerHandle | None = None

    def ring_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.next, self._timer = when, self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        now = max(time.monotonic(), self.next)
        self.next, self._timer = math.inf, None
        due = sorted([alarm for alarm in self.pending if alarm.when <= now], key=lambda alarm: alarm.when)
        self.pending.difference_update(due)
        if self.pending:
            self.ring_at(min([alarm.when for alarm in self.pending]))
        for alarm in due:
            alarm.call()


class _ThreadAlarms(threading.local):
    alarms: Alarms | None = None  # of the loop that ran last in this thread


_here = _ThreadAlarms()


def _running_alarms() -> Alarms:
    """Those of the running loop. To ask whether the last one still runs takes a tenth of `get_running_loop`."""
    alarms = _here.alarms
    if alarms is None or not alarms.loop.is_running():
        alarms = _here.alarms = Alarms(asyncio.get_running_loop())
    return alarms


def at(when: float, call: Callable[[], None]) -> Alarm:
    """Call `call` when the running loop's clock reaches `when`, unless the alarm is cancelled before."""
    alarms = _running_alarms()
    alarm = Alarm(alarms, when, call)
    alarms.pending.add(alarm)
    if when < alarms.next:
        alarms.ring_at(when)
    return alarm


class TimeLimit:
    """`asyncio.timeout` with an alarm, for `with`: raises `TimeoutError` in the task when the time is over."""

    __slots__ = ("_alarm", "_cancellations", "_is_over", "_seconds", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = False
        self._alarm: Alarm | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task(_running_alarms().loop)
        assert task is not None  # a coroutine runs in one
        self._task, self._cancellations = task, task.cancelling()
        self._alarm = at(time.monotonic() + self._seconds, self._over)
        return self

    def end_now(self) -> None:
        """Let the time be over in the loop's next iteration."""
        if self._alarm is not None and not self._is_over:
            self._alarm.cancel()
            self._alarm = at(0.0, self._over)

    def _over(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._is_over and self._task.uncancel() <= self._cancellations and kind is asyncio.CancelledError:
            raise TimeoutError from error
