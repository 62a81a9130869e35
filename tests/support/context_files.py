"""Questions with files, and their refusals."""

from __future__ import annotations

import pytest

from counsel.caller import Caller
from counsel.engine.context import build
from counsel.errors import CounselError
from counsel.requests import Question

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ" * 3 + "\n"


def ask(caller: Caller, *files: str, prompt: str = "Why?") -> build.Context:
    return build.build(Question(prompt=prompt, files=files), caller)


def refused(kind: type[CounselError], caller: Caller, *files: str) -> CounselError:
    with pytest.raises(kind) as excinfo:
        ask(caller, *files)
    assert excinfo.value.hint or len(files) > 1
    return excinfo.value
