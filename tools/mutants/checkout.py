"""A copy of the working tree with its own environment, so that mutants never touch the files that people work on.

Every process that a test starts with this environment's Python imports the copy, whatever its variables say.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tools.mutants.packages import FAST, ROOT

COUNSEL = "#!{python}\nimport sys\nfrom counsel.__main__ import main\n\nsys.exit(main())\n"


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / ".mutants"
        self._clock = int(time.time()) - 100_000
        self._copy()
        self._make_environment()

    def _copy(self) -> None:
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        if (ROOT / ".cache").is_dir():
            (self.folder / ".cache").symlink_to(ROOT / ".cache")

    def _make_environment(self) -> None:
        venv = self.folder / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        self.python = venv / "bin" / "python"
        packages = next(venv.glob("lib/python*/site-packages"))
        real = sysconfig.get_paths()["purelib"]
        (packages / "counsel.pth").write_text(f"{self.folder / 'src'}\n{self.folder}\n{real}\n")
        self._hook = packages / "record.pth"
        script = venv / "bin" / "counsel"
        script.write_text(COUNSEL.format(python=self.python))
        script.chmod(0o755)
        for folder in (self.notes, self.folder / "home"):
            folder.mkdir()

    def read(self, file: str) -> str:
        return (self.folder / "src" / "counsel" / file).read_text()

    def write(self, file: str, text: str) -> None:
        """Write the file with a unique time: two texts of one length within a second would share their bytecode."""
        path = self.folder / "src" / "counsel" / file
        path.write_text(text)
        self._clock += 10
        os.utime(path, (self._clock, self._clock))

    @contextmanager
    def recording(self) -> Iterator[None]:
        for old in self.notes.glob("*"):
            old.unlink()
        (self.notes / "record").write_text("")
        self._hook.write_text("import tools.mutants.hook\n")
        try:
            yield
        finally:
            self._hook.unlink()
            (self.notes / "record").unlink()

    def pytest(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run pytest and end all that it started. Returns the exit code (None: out of time) and the output."""
        command = [
            str(self.python),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tools.mutants.plugin",
            f"--basetemp={self.folder / 't'}",  # what a mutant leaves there disturbs no other run
        ]
        with (self.notes / "output").open("w+b") as output:
            process = subprocess.Popen(
                [*isolation(), *command, "-m", FAST, *arguments],
                cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(process)
            output.seek(0)
            return code, output.read().decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        variables = {
            name: os.environ[name]
            for name in ("LANG", "LC_ALL", "TERM", "TZ", "TMPDIR")
            if name in os.environ
        }
        path = f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**variables, "PATH": path, "HOME": str(self.folder / "home"), "PYTHONHASHSEED": "0"}


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@cache
def isolation() -> list[str]:
    """A process namespace, where Linux allows it: a mutant may signal wrong processes, or leave some behind."""
    init = ["sh", "-c", '"$@"; exit $?', "sh"]
    base = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for attempt in (base, [base[0], "--user", "--map-current-user", *base[1:]]):
        try:
            if subprocess.run([*attempt, "true"], check=False, capture_output=True).returncode == 0:
                return [*attempt, *init]
        except FileNotFoundError:
            break
    print(
        "mutants: no process namespace here; processes that a mutant leaves behind may stay", file=sys.stderr
    )
    return []
