"""Identifies a process, so that another process can tell later whether it still runs."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from counsel.lazy_dataclass import dataclass

_SEPARATOR = "-"


@dataclass(frozen=True, slots=True)
class Process:
    """A process id alone proves nothing: ids are reused, and are valid only within one boot and one container."""

    pid: int
    start: str = ""  # when it started, by the kernel's clock: tells apart processes with the same id
    machine: str = ""
    boot: str = ""
    namespace: str = ""  # in which the id is valid: each container has its own

    def name(self) -> str:
        parts = (str(self.pid), self.start, self.machine, self.boot, self.namespace)
        return _SEPARATOR.join(parts)

    def runs(self) -> bool | None:
        """Whether the process still runs; None: undecidable."""
        own = current()
        if self.machine and self.machine != own.machine:
            return None
        if self.boot and own.boot and self.boot != own.boot:
            return False  # the machine has been restarted since
        if self.namespace and self.namespace != own.namespace:
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it exists and belongs to another user
        except (OSError, OverflowError):
            return None
        start = started(self.pid)
        return start == self.start if start and self.start else None


def parse(name: str) -> Process | None:
    """The process of a name; an earlier release's name has only the process id."""
    pid, *fields = name.split(_SEPARATOR)
    if not pid.isascii() or not pid.isdigit() or int(pid) < 1:
        return None
    return Process(int(pid), *fields) if len(fields) == 4 else Process(int(pid))


def current() -> Process:
    return _of(os.getpid())  # by id, because a forked child is another process


@functools.lru_cache(maxsize=4)
def _of(pid: int) -> Process:
    return Process(pid, started(pid) or "", _machine(), _boot(), _namespace())


def started(pid: int) -> str | None:
    """When the process with this id started; None: unknown. "ended": it has ended and waits for its parent."""
    if sys.platform != "linux":
        return _started_by_ps(pid)
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # gone just now, hidden, or no descriptor is left: proves nothing
        return None
    fields = line.rpartition(b")")[2].split()  # the name before it may have spaces
    if len(fields) < 20:
        return None
    return "ended" if fields[0] in {b"Z", b"X"} else fields[19].decode()


def _started_by_ps(pid: int) -> str | None:
    """macOS has no /proc. `ps` prints the time to the second, in a format that depends on the locale and time zone."""
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    env = {"PATH": "/bin:/usr/bin", "LC_ALL": "C", "TZ": "UTC"}
    try:
        result = subprocess.run(command, capture_output=True, env=env, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return "".join(result.stdout.decode("ascii", "replace").split()).replace(":", "") or None


@functools.cache
def _machine() -> str:
    return _short(_read("/etc/machine-id") or os.uname().nodename)


@functools.cache
def _boot() -> str:
    return _short(_read("/proc/sys/kernel/random/boot_id") or _mac_boot())


def _mac_boot() -> str:
    command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=False).stdout.decode().strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""


def _namespace() -> str:
    try:
        return "".join(filter(str.isdigit, str(Path("/proc/self/ns/pid").readlink())))
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""
