"""Clients of a team's servers: they ask, ask again if a server is gone, and follow every job to its end."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from team.fleet import Fleet, Member

_AGAIN = 0.2  # seconds
ENDS = ("done", "failed", "cancelled")
_FAILURES = (aiohttp.ClientError, TimeoutError, ConnectionError)


@dataclass
class Submission:
    """A question as its client sees it, with its job."""

    prompt: str
    body: dict[str, Any]
    key: str = field(default_factory=lambda: str(uuid.uuid4()))
    id: str = ""
    sent: int = 0  # requests until it was accepted
    connections: int = 0  # of its follower
    end: str = ""
    texts: dict[str, str] = field(default_factory=dict)  # by slot
    seen: list[tuple[int, str, str]] = field(default_factory=list)  # seq, kind and slot of events except text
    faults: list[str] = field(default_factory=list)  # what the follower missed, or got twice


def chat(prompt: str, conversation: str | None = None) -> Submission:
    body: dict[str, Any] = {"prompt": prompt, "model": "gpt-5", "mode": "background"}
    return Submission(prompt, body | ({"continuation_id": conversation} if conversation else {}))


def consensus(prompt: str) -> Submission:
    return Submission(
        prompt, {"prompt": prompt, "models": ["gpt-5", "sonnet", "deepseek-chat"], "mode": "background"}
    )


async def submit(fleet: Fleet, submission: Submission, member: Member | None = None) -> None:
    """Submit to any server until one accepts it. The key makes it a single job."""
    while not submission.id:
        submission.sent += 1
        server = member or fleet.a_server()
        try:
            async with fleet.session.post(
                f"{server.url}/api/jobs",
                json=submission.body,
                headers={"Idempotency-Key": submission.key},
                timeout=aiohttp.ClientTimeout(total=30),
            ) as response:
                document = await response.json()
                if response.status in {200, 202}:
                    submission.id = document["job_id"]
                    return
                assert response.status >= 500, (response.status, document)
        except _FAILURES:
            pass
        await asyncio.sleep(_AGAIN)


async def follow(fleet: Fleet, submission: Submission) -> None:
    """Follow on any server; if the connection is lost, on another one from the last event's id."""
    last = ""
    while not submission.end:
        submission.connections += 1
        headers = {"Last-Event-ID": last} if last else {}
        try:
            async with fleet.session.get(
                f"{fleet.a_server().url}/api/jobs/{submission.id}/events",
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=20),
            ) as response:
                if response.status != 200:
                    assert response.status >= 500, (response.status, await response.text())
                    await asyncio.sleep(_AGAIN)
                    continue
                async for name, document in events(response):
                    last = name
                    take(submission, document)
        except _FAILURES:
            await asyncio.sleep(_AGAIN)


async def follow_when_asked(fleet: Fleet, submission: Submission, when: float) -> None:
    await asyncio.sleep(when)
    await submit(fleet, submission)
    await follow(fleet, submission)


async def events(response: aiohttp.ClientResponse) -> Any:
    name = ""
    async for line in response.content:
        text = line.decode().rstrip("\n")
        if text.startswith("id: "):
            name = text[4:]
        elif text.startswith("data: "):
            yield name, json.loads(text[6:])


def take(submission: Submission, event: dict[str, Any]) -> None:
    """Apply an event as docs/use/http.md says: text replaces everything from its offset on."""
    kind, slot, data = event["kind"], event["slot"], event["data"]
    if kind == "text":
        text = submission.texts.get(slot, "")
        if data["offset"] > len(text):
            submission.faults.append(f"text is missing before {data['offset']}: {len(text)} characters")
        elif text[data["offset"] :].startswith(data["text"]) and data["text"]:
            submission.faults.append(f"text comes twice at {data['offset']}: {data['text'][:40]!r}")
        submission.texts[slot] = text[: data["offset"]] + data["text"]
        return
    if kind == "thinking":
        return
    if kind in {"model_started", "restarted"}:
        offset = data["offset"] if kind == "restarted" else 0
        submission.texts[slot] = submission.texts.get(slot, "")[:offset]
    entry = (event["seq"], kind, slot)
    if entry in submission.seen:
        submission.faults.append(f"event {entry} comes twice")
    if submission.seen and kind not in ENDS and event["seq"] <= submission.seen[-1][0]:
        submission.faults.append(f"event {entry} comes after {submission.seen[-1]}")
    submission.seen.append(entry)
    if kind in ENDS:
        submission.end = kind
