"""The public names and signatures of `counsel`, and its version, which is written in one place.

tests/public_api.py is the typed half: mypy checks it. A change here is a change for users: say so in CHANGELOG.md.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import counsel
from counsel import api, sync
from counsel.front.protocol import SERVER

ROOT = Path(__file__).parent.parent

NAMES = ["Answer", "Consensus", "Counsel", "CounselError", "Job", "Review", "Usage", "__version__"]
METHODS = {
    "__init__": "(self, *, env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None) -> None",
    "ask": "(self, prompt: str, *, model: str = 'auto', **options: Unpack[Options]) -> Answer",
    "budgets": "(self) -> list[BudgetReport]",
    "cancel": "(self, any_id: str, member: str | None = None) -> Cancellation",
    "close": "(self) -> None",
    "consensus": "(self, prompt: str, *, models: Sequence[str | Member], cross_feedback: bool = True,"
    " cross_feedback_prompt: str | None = None, judge: str | None = None, choices: Sequence[str] = (),"
    " refine: Refine | None = None, rounds: int = 2, order: Order = 'parallel', **options: Unpack[Options]) -> Consensus",
    "review": "(self, diff: str | None = None, *, base: str | None = None, staged: bool = False,"
    " models: Sequence[str | Member] = ('auto',), focus: str | None = None, **options: Unpack[ReviewOptions]) -> Review",
    "status": "(self, any_id: str, *, full_history: bool = False) -> Job",
    "stream": "(self, prompt: str, *, model: str = 'auto', **options: Unpack[Options]) -> AsyncGenerator[JobEvent]",
    "submit": "(self, prompt: str, *, model: str = 'auto', **options: Unpack[Options]) -> str",
    "wait": "(self, job_id: str) -> Answer | Consensus | Review",
}
OPTIONS = {
    "files": "Sequence[str | os.PathLike[str]]",
    "images": "Sequence[str | os.PathLike[str]]",
    "continuation_id": "str",
    "temperature": "float",
    "reasoning_effort": "Effort",
    "verbosity": "Verbosity",
    "use_websearch": "bool",
    "media_resolution": "MediaResolution",
    "export": "bool | str",
    "max_cost_usd": "float",
    "tools": "Sequence[str]",
}
FIELDS = {
    "Answer": ["text", "model", "provider", "continuation_id", "job_id", "cost_usd", "usage", "metadata"],
    "Consensus": [
        *("status", "text", "answers", "failed", "continuation_id", "job_id", "cost_usd", "usage", "result"),
        *("verdict", "vote", "refinement"),
    ],
    "Job": [
        *(
            "id",
            "continuation_id",
            "status",
            "tool",
            "models",
            "completed",
            "total",
            "started_at",
            "finished_at",
        ),
        *("elapsed_seconds", "title", "summary", "text", "result", "error", "usage", "cost_usd", "members"),
        *("waiting_for", "history", "document"),
    ],
}


def test_the_public_names_are_these() -> None:
    assert sorted(counsel.__all__) == NAMES
    assert all(hasattr(counsel, name) for name in NAMES)


def test_the_methods_of_counsel_have_these_signatures() -> None:
    public = [name for name in vars(counsel.Counsel) if not name.startswith("_")]
    assert sorted([*public, "__init__"]) == sorted(METHODS)
    assert {name: _signature(name) for name in METHODS} == METHODS


def _signature(name: str) -> str:
    text = str(inspect.signature(getattr(counsel.Counsel, name)))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are strings; defaults keep their quotes


def test_the_blocking_client_has_the_same_methods() -> None:
    blocking = {
        name: str(inspect.signature(member))
        for name, member in vars(sync.Counsel).items()
        if not name.startswith("_")
    }
    assert blocking.pop("stream").endswith("'Generator[JobEvent, None, None]'")
    for name, signature in blocking.items():
        assert signature == str(inspect.signature(getattr(counsel.Counsel, name)))
    assert {*blocking, "stream", "__init__"} == set(METHODS)


def test_every_field_is_explained_in_the_guide() -> None:
    guide = (ROOT / "docs" / "use" / "python.md").read_text("utf-8")
    missing = [
        f"{kind}.{name}" for kind, names in FIELDS.items() for name in names if f"`{name}`" not in guide
    ]
    assert missing == []


def test_every_question_takes_these_options() -> None:
    annotations = inspect.get_annotations(api.Options)
    assert {name: kind.__forward_arg__ for name, kind in annotations.items()} == OPTIONS


def test_answers_have_these_fields() -> None:
    kinds = {"Answer": counsel.Answer, "Consensus": counsel.Consensus, "Job": counsel.Job}
    assert {
        name: [field.name for field in dataclasses.fields(kind)] for name, kind in kinds.items()
    } == FIELDS


def test_the_version_is_written_in_one_place_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "src/counsel/__init__.py"}
    literal = re.compile(rf"[\"']{re.escape(counsel.__version__)}[\"']")
    sources = (ROOT / "src").rglob("*.py")
    assert [path.name for path in sources if literal.search(path.read_text("utf-8"))] == ["__init__.py"]


def test_the_command_the_package_and_the_server_say_the_same_version(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "COUNSEL_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "counsel", "--version"]
    output = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.split()[-1] == counsel.__version__
    assert SERVER["version"] == counsel.__version__
    assert metadata.version("counsel") == counsel.__version__


def test_a_client_gets_the_version_over_stdio(tmp_path: Path) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}) + "\n"
    env = {"HOME": str(tmp_path), "COUNSEL_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "counsel", "stdio", "--standalone"]
    process = subprocess.run(
        command, env=env, input=ask, capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert (
        json.loads(process.stdout.splitlines()[0])["result"]["serverInfo"]["version"] == counsel.__version__
    )
