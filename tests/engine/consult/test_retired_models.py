"""Models that a vendor has retired, or that an account cannot use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counsel import Counsel
from counsel.errors import ModelNotFound
from fake import FakeAPI


@pytest.fixture
async def counsel(fake_api: FakeAPI, tmp_path: Path) -> AsyncIterator[Counsel]:
    env = {"COUNSEL_HOME": str(tmp_path), "GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": fake_api.url}
    env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": fake_api.v1}
    async with Counsel(env=env, cwd=tmp_path) as client:
        yield client


async def test_the_successor_of_a_retired_model_answers_with_a_notice(
    counsel: Counsel, fake_api: FakeAPI
) -> None:
    fake_api.script(error="not_found", model="gemini-3-pro-preview", times=None)
    answer = await counsel.ask("hello", model="pro")
    assert answer.text == "gemini-3.1-pro-preview says: hello"
    assert "no longer offers gemini-3-pro-preview; gemini-3.1-pro-preview was asked" in repr(answer.metadata)


async def test_an_available_model_is_not_replaced_by_its_successor(counsel: Counsel) -> None:
    answer = await counsel.ask("hello", model="pro")
    assert answer.text == "gemini-3-pro-preview says: hello"
    assert "no longer" not in repr(answer.metadata)


async def test_auto_continues_when_the_account_lacks_a_model(counsel: Counsel, fake_api: FakeAPI) -> None:
    fake_api.script(error="not_found", model="gpt-6.1-sol", times=None)
    answer = await counsel.ask("hello")
    assert answer.model == "gemini-4-argon"
    assert "gpt-6.1-sol" in repr(answer.metadata)


async def test_a_named_model_that_the_vendor_does_not_have_is_an_error(
    counsel: Counsel, fake_api: FakeAPI
) -> None:
    fake_api.script(error="not_found", model="gpt-5", times=None)
    with pytest.raises(ModelNotFound):
        await counsel.ask("hello", model="gpt-5")


async def test_a_model_retired_in_the_middle_of_its_answer_has_no_successor(
    counsel: Counsel, fake_api: FakeAPI
) -> None:
    """Half of one model's answer and all of another's are not one answer."""
    fake_api.script(text="half of it", error="not_found", error_after=1, model="gemini-3-pro-preview")
    with pytest.raises(ModelNotFound) as excinfo:
        await counsel.ask("hello", model="pro")
    assert excinfo.value.partial == "half"
