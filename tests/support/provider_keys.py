from __future__ import annotations

from fake import FakeAPI, FakeProcess


def keys(fake: FakeAPI | FakeProcess) -> dict[str, str]:
    """An environment in which every provider is the fake."""
    v1 = fake.v1
    return {
        "OPENAI_API_KEY": "sk-test-openai-0000000000000000",
        "OPENAI_BASE_URL": v1,
        "ANTHROPIC_API_KEY": "sk-ant-test-0000000000000000",
        "ANTHROPIC_BASE_URL": fake.url,
        "GOOGLE_API_KEY": "AIzaTest00000000000000000000000000000000",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
        "XAI_API_KEY": "xai-test-0000000000000000",
        "XAI_BASE_URL": f"{fake.url}/xai/v1",
        "DEEPSEEK_API_KEY": "sk-test-deepseek-000000000000",
        "DEEPSEEK_BASE_URL": f"{fake.url}/deepseek/v1",
    }
