"""The examples of docs/use/python.md, run unchanged against the fake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fake import FakeProcess

PAGE = Path(__file__).resolve().parents[1] / "docs" / "use" / "python.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, fake_process: FakeProcess, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("lock = 1\n")
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[number])
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "counsel"),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake_process.v1,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "ANTHROPIC_BASE_URL": fake_process.url,
        "GEMINI_API_KEY": "AIza-test",
        "GOOGLE_GEMINI_BASE_URL": fake_process.url,
    }
    process = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert " says: " in process.stdout


def test_there_are_examples_with_and_without_await() -> None:
    assert ["counsel.sync" in example for example in EXAMPLES] == [True, False]
