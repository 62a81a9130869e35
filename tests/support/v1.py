"""`counsel serve` with every vendor behind it, and the vendors' own SDKs in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai

from fake import FakeAPI
from support.api_client import TOKEN, Api, in_process


@dataclass
class V1:
    """`openai` and `anthropic` ask counsel; `…_vendor` ask the fake vendor itself."""

    url: str
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    openai_vendor: openai.AsyncOpenAI
    anthropic_vendor: anthropic.AsyncAnthropic
    session: aiohttp.ClientSession

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(path, json=body, headers=fields) as answer:
            return answer.status, await answer.json()


def vendors(fake: Any) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "sk-ant-test-000000000000000000",
        "ANTHROPIC_BASE_URL": fake.url,
        "GEMINI_API_KEY": "gemini-test-0000000000000000000000",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
        "DEEPSEEK_API_KEY": "sk-test-deepseek-0000000000000",
        "DEEPSEEK_BASE_URL": fake.v1,
    }


@asynccontextmanager
async def served(folder: Path, fake: FakeAPI, **env: str) -> AsyncIterator[V1]:
    async with (
        in_process(folder, fake, **{**vendors(fake), **env}) as api,
        sdks(address(api), fake.url) as v1,
    ):
        yield v1


def address(api: Api) -> str:
    return str(api.session._base_url).rstrip("/")


@asynccontextmanager
async def sdks(url: str, vendor: str) -> AsyncIterator[V1]:
    async with (
        # one client for all, without certificates: each would take 100 ms to read them
        openai.DefaultAsyncHttpxClient(verify=False, timeout=60) as client,
        aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as session,
    ):
        options: dict[str, Any] = {"max_retries": 0, "http_client": client}
        yield V1(
            url,
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=TOKEN, **options),
            anthropic.AsyncAnthropic(base_url=url, api_key=TOKEN, **options),
            openai.AsyncOpenAI(base_url=f"{vendor}/v1", api_key="sk-vendor", **options),
            anthropic.AsyncAnthropic(base_url=vendor, api_key="sk-vendor", **options),
            session,
        )
