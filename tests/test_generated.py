"""The committed generated files are up to date."""

import pytest

from tools import generate


@pytest.mark.parametrize("path", list(generate.generated))
def test_a_generated_file_is_up_to_date(path: str) -> None:
    expected = (generate.ROOT / path).read_text(encoding="utf-8")
    assert expected == generate.content(path), (
        f"{path} is out of date: run `make docs` and look at what changed"
    )
