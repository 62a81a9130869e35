"""A fake of the vendors' APIs on a loopback port. README.md explains its use."""

from .behaviour import BEFORE_FIRST_EVENT, BEFORE_HEADERS, Behaviour, marked
from .process import FakeHost, FakeProcess
from .records import Filter, Received
from .server import FakeAPI

__all__ = [
    "BEFORE_FIRST_EVENT",
    "BEFORE_HEADERS",
    "Behaviour",
    "FakeAPI",
    "FakeHost",
    "FakeProcess",
    "Filter",
    "Received",
    "marked",
]
