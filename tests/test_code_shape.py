"""tools/shape.py counts correctly, and the code keeps its shape."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import shape

ROOT = Path(__file__).parent.parent
FILES = {
    "__init__.py": "from counsel.api import Api\n",
    "api.py": 'from typing import Any\n\nNOTE = "# noqa: not a comment"\nVALUE: "Any" = 1  # noqa: E501\n',
    "early/__init__.py": "",
    "early/first.py": "from counsel.late import second\n\n\ndef go(x: Json) -> Any:\n    import counsel.api\n    return 1\n",
    "late/__init__.py": "",
    "late/second.py": 'from importlib import import_module\n\nM = import_module("counsel.early.first")\n',
    "late/third.py": "from counsel.late.fourth import A\n",
    "late/fourth.py": "from . import third\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "src" / "counsel" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_functions_and_modules_are_counted(checkout: Path) -> None:
    counts = shape.shape(checkout)
    assert (counts["modules"], counts["packages"], counts["modules under 60 lines"]) == (6, 3, 6)
    assert (counts["functions"], counts["imports inside functions"], counts["noqa"]) == (1, 1, 1)


def test_quoted_annotations_count_and_imports_do_not(checkout: Path) -> None:
    counts = shape.shape(checkout)
    assert (counts["Any"], counts["Json"]) == (2, 1)


def test_cycles_are_found_between_modules_and_behind_imports_by_name(checkout: Path) -> None:
    counts = shape.shape(checkout)
    assert counts["cycles of modules, module level"] == [["counsel.late.fourth", "counsel.late.third"]]
    assert counts["cycles of top packages, module level"] == []
    assert counts["cycles of top packages, any import"] == [["counsel.early", "counsel.late"]]


def test_the_code_keeps_its_shape() -> None:
    """`Any` and `Json` are at most half of what they were before the big move (docs/internals/shape.md)."""
    counts = shape.shape(ROOT)
    assert counts["longest functions"] == {}  # none over 50 lines
    assert counts["Any"] in range(725 // 2 + 1)
    assert counts["Json"] in range(649 // 2 + 1)
    assert counts["cycles of modules, module level"] == []
    assert counts["cycles of top packages, module level"] == []


def test_the_script_prints_one_column_per_checkout(checkout: Path) -> None:
    command = [sys.executable, "-m", "tools.shape", str(checkout), "--json"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(output)[checkout.name]["modules"] == 6
    assert (
        shape.table({"a": {"modules": 1234}, "b": {"modules": 5}}).splitlines()[-1]
        == "| modules | 1,234 | 5 |"
    )
