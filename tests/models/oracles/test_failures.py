"""A vendor's error, read by pydantic-ai and by us: the same kind, the same wait."""

from __future__ import annotations

from types import ModuleType

import pytest

from counsel.errors import CounselError
from counsel.models import catalog_rows
from counsel.types import Call, Turn

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

MODELS = {
    "openai": "gpt-5.1",
    "anthropic": "claude-opus-5",
    "google": "gemini-2.5-pro",
    "deepseek": "deepseek-chat",
}
KINDS = {
    "auth": ("AUTHENTICATION_FAILED", "ModelAuthenticationError"),
    "not_found": ("MODEL_NOT_FOUND", "ModelNotFoundError"),
    "rate_limit": ("RATE_LIMIT_EXCEEDED", "ModelRateLimitError"),
    "context": ("CONTEXT_LENGTH_EXCEEDED", "ModelContextWindowExceededError"),
    "overloaded": ("PROVIDER_UNAVAILABLE", "ModelOverloadedError"),
}


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_failure_is_what_the_sdk_makes_of_it(
    asking: ModuleType, provider: str, kind: str
) -> None:
    code, name = KINDS[kind]
    catalog = catalog_rows.shipped()
    call = Call((Turn("user", "hello"),))
    question = asking.Question(kind, catalog.models[MODELS[provider]], catalog.providers[provider], call)
    async with asking.both_ways() as both:
        both.fake.script(error=kind, retry_after=3000, times=None)
        with pytest.raises(CounselError) as ours:
            await both.ours(question)
        theirs = await both.refused(question)
    assert ours.value.code == code
    assert type(theirs).__name__ == name
    if kind == "rate_limit":
        assert ours.value.fields["retry_after"] == theirs.retry_after == 3000
