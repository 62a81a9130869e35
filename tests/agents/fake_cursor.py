"""Stands in for `cursor-agent`, which needs an account: its documented command line and events.

It asks the fake's OpenAI endpoint (STAND_IN_URL), so that the drivers' conformance suite can steer it like the
real agents. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def stop(words: str, code: int = 1) -> None:
    print(words, file=sys.stderr)
    raise SystemExit(code)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", "--print", action="store_true", required=True)
    parser.add_argument("--output-format", choices=["text", "json", "stream-json"], required=True)
    parser.add_argument("--stream-partial-output", action="store_true")
    parser.add_argument("--trust", action="store_true", required=True)
    parser.add_argument("--mode", choices=["agent", "plan", "ask"], default="agent")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--sandbox", choices=["enabled", "disabled"])
    parser.add_argument("--model", default="composer-2.5")
    parser.add_argument("--resume")
    options = parser.parse_args()
    if not os.environ.get("CURSOR_API_KEY"):
        stop("Error: Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY.")
    Cursor(options).answer(sys.stdin.read())


class Cursor:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.chats = Path(os.environ["HOME"]) / ".cursor" / "chats"
        self.session = options.resume or str(uuid.uuid4())
        self.kept = self.chats / f"{self.session}.json"
        if options.resume and not self.kept.exists():
            stop(f"Error: Chat {self.session} not found")

    def answer(self, prompt: str) -> None:
        messages = json.loads(self.kept.read_text()) if self.options.resume else []
        messages.append({"role": "user", "content": prompt})
        began = time.monotonic()
        self.say(
            type="system", subtype="init", apiKeySource="env", cwd=str(Path.cwd()), permissionMode="default"
        )
        self.say(type="user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
        text = self.ask(messages)
        self.assistant(text)  # the complete text again, as the real one does
        messages.append({"role": "assistant", "content": text})
        self.chats.mkdir(parents=True, exist_ok=True)
        self.kept.write_text(json.dumps(messages))
        took = int((time.monotonic() - began) * 1000)
        self.say(
            type="result",
            subtype="success",
            is_error=False,
            duration_ms=took,
            duration_api_ms=took,
            result=text,
        )

    def ask(self, messages: list[dict[str, str]]) -> str:
        body = {"model": self.options.model, "messages": messages, "stream": True}
        request = urllib.request.Request(
            f"{os.environ['STAND_IN_URL']}/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": f"Bearer {os.environ['CURSOR_API_KEY']}"},
        )
        lines = []
        try:
            with urllib.request.urlopen(request) as stream:
                for line in stream:
                    if not line.startswith(b"data: {"):
                        continue
                    delta = json.loads(line[6:])["choices"]
                    words = delta[0]["delta"].get("content") if delta else None
                    if words:
                        lines.append(words)
                        self.assistant(words, timestamp_ms=int(time.time() * 1000))
        except urllib.error.HTTPError as error:
            stop(f"Error: [{error.code}] {error.read().decode()}")
        return "".join(lines)

    def assistant(self, words: str, **more: object) -> None:
        content = [{"type": "text", "text": words}]
        self.say(type="assistant", message={"role": "assistant", "content": content}, **more)

    def say(self, **event: object) -> None:
        say(**event, session_id=self.session, model=self.options.model)


main()
