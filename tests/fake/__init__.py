"""The one loopback fake of the vendors' APIs. README.md beside this file says how it is used."""

from .behaviour import BEFORE_FIRST_EVENT, BEFORE_HEADERS, Behaviour, marked
from .process import FakeProcess
from .records import Filter, Received
from .server import FakeAPI

__all__ = [
    "BEFORE_FIRST_EVENT",
    "BEFORE_HEADERS",
    "Behaviour",
    "FakeAPI",
    "FakeProcess",
    "Filter",
    "Received",
    "marked",
]
