"""A file's diff for a web page: the value after `--api-key` is masked on another line, too, however it is quoted."""

from __future__ import annotations

import json

import pytest

from counsel.servers.secrets import masked_diff

SECRET = "pässword-0123456789"


@pytest.mark.parametrize(
    "literal", [json.dumps(SECRET), json.dumps(SECRET, ensure_ascii=False), f"'{SECRET}'"]
)
def test_an_arguments_value_is_masked_however_it_is_quoted(literal: str) -> None:
    documents = [{"servers": [{"args": ["--api-key", SECRET, "--port", "80"]}]}, {"args": ["a", 3]}]
    diff = masked_diff(f'+    "--api-key",\n+    {literal},\n+    "80"\n', documents)
    assert "0123456789" not in diff
    assert diff.count(literal[0]) >= 2
    assert '"80"' in diff


def test_other_arguments_stay() -> None:
    diff = '+  "run", "files", "--port", "80"\n'
    assert masked_diff(diff, [{"args": ["run", "files", "--port", "80"]}]) == diff
