from __future__ import annotations

import errno
import io
import logging
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counsel import logs, redaction, settings

KEY = "not-of-any-known-shape-42"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., io.StringIO]]:
    """`start(**env)` sets up logging and returns the text on stderr; the root logger is restored afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("counsel")
    before, level = list(root.handlers), ours.level
    stream = io.StringIO()
    monkeypatch.setattr(redaction, "_secret_values_pattern", None)
    monkeypatch.setattr(logs, "CHECK_SECONDS", 0.0)
    redaction._secrets.clear()

    def make(*, stderr: bool = True, **env: str) -> io.StringIO:
        monkeypatch.setattr(sys, "stderr", stream)  # here: pytest changes it between set-up and call
        logs.setup(settings.load({"COUNSEL_HOME": str(tmp_path / "home"), **env}), stderr=stderr)
        return stream

    yield make
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    ours.setLevel(level)


def file_text(tmp_path: Path) -> str:
    return (tmp_path / "home" / "logs" / "counsel.log").read_text()


log = logging.getLogger("counsel.test")


def test_records_go_to_stderr_and_to_a_private_file(
    start: Callable[..., io.StringIO], tmp_path: Path
) -> None:
    output = start()
    log.info("hello %s", "there")
    assert "INFO    counsel.test: hello there\n" in output.getvalue()
    assert file_text(tmp_path) == output.getvalue()
    assert stat.S_IMODE((tmp_path / "home" / "logs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "home" / "logs" / "counsel.log").stat().st_mode) == 0o600


def test_without_stderr_only_the_file_is_written(start: Callable[..., io.StringIO], tmp_path: Path) -> None:
    output = start(stderr=False)
    log.info("hello")
    assert output.getvalue() == ""
    assert "hello" in file_text(tmp_path)


def test_a_file_with_a_wider_mode_is_narrowed(start: Callable[..., io.StringIO], tmp_path: Path) -> None:
    path = tmp_path / "home" / "logs" / "counsel.log"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o644)
    start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("level", "count"), [("debug", 4), ("INFO", 3), ("warning", 2), ("error", 1), ("bogus", 3)]
)
def test_log_level(start: Callable[..., io.StringIO], level: str, count: int) -> None:
    output = start(LOG_LEVEL=level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("line")
    assert output.getvalue().count("line") == count


def test_setting_up_twice_does_not_double_records(start: Callable[..., io.StringIO]) -> None:
    start()
    output = start()
    log.info("once")
    assert output.getvalue().count("once") == 1


def test_a_callers_keys_are_hidden_whatever_they_look_like(
    start: Callable[..., io.StringIO], tmp_path: Path
) -> None:
    output = start(FOO_API_KEY=KEY, COUNSEL_TOKEN="http-token-123")
    log.info("sent %s with %r", KEY, {"token": "http-token-123"})
    log.error("failed", exc_info=ValueError(f"bad {KEY}"))
    for text in (output.getvalue(), file_text(tmp_path)):
        assert KEY not in text
        assert "http-token-123" not in text
        assert "ValueError: bad [hidden]" in text


def test_another_callers_keys_are_hidden_once_they_are_known(
    start: Callable[..., io.StringIO], tmp_path: Path
) -> None:
    output = start()
    redaction.protect(settings.load({"COUNSEL_HOME": str(tmp_path), "BAR_API_KEY": KEY}))
    log.info(KEY)
    assert KEY not in output.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcDEF0123456789abcDEF",
        "sk-ant-api03-abcDEF0123456789",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "xai-abcdef0123456789abcdef",
        "ghp_abcdefghijklmnopqrstuvwx",
        "Authorization: Bearer topsecretvalue",
        "'x-api-key': 'topsecretvalue'",
        "https://h.example/v1?key=topsecretvalue&alt=sse",
        "https://user:topsecretvalue@h.example/",
        "OPENAI_API_KEY=topsecretvalue",
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\ntopsecretvalue\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str) -> None:
    result = redaction.redact(f"before {text} after")
    assert "[hidden]" in result
    for piece in ("topsecretvalue", "abcDEF", "abcdef", "1234567890", "eyJzdWIi"):
        assert piece not in result
    assert result.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "job_01J started",
        "asked gpt-5 for 120 tokens",
        "key missing: set OPENAI_API_KEY",
        "risk-free task-list",
    ],
)
def test_plain_messages_stay(text: str) -> None:
    assert redaction.redact(text) == text


def test_prompts_are_shown_only_on_request() -> None:
    assert logs.content("my prompt", settings.Settings()) == "(9 characters)"
    assert logs.content("my prompt", settings.Settings(log_content=True)) == "my prompt"


def test_libraries_cannot_log_what_was_sent(start: Callable[..., io.StringIO]) -> None:
    output = start(LOG_LEVEL="debug")
    library = logging.getLogger("mcp.server")
    library.setLevel("DEBUG")
    library.debug("message: my prompt")
    library.warning("1 validation error\n  input_value='my prompt'")
    library.error("it broke", exc_info=ValueError("my prompt"))
    library.setLevel("NOTSET")
    assert "my prompt" not in output.getvalue()
    assert "1 validation error\n" in output.getvalue()
    assert "it broke (ValueError)\n" in output.getvalue()


def test_a_message_cannot_forge_a_record(start: Callable[..., io.StringIO]) -> None:
    output = start()
    log.info("client %s", "x\n2026-01-01 ERROR counsel: forged\x1b[2J")
    assert "\n    2026-01-01 ERROR" in output.getvalue()
    assert "\x1b" not in output.getvalue()


def test_a_disk_that_cannot_be_written_stops_nothing(
    start: Callable[..., io.StringIO], tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    output = start()
    log.info("still here")
    assert "no log file" in output.getvalue()
    assert "still here" in output.getvalue()


def test_a_full_disk_is_silent_and_shows_no_record(
    start: Callable[..., io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = start()

    def disk_full(_self: object, _text: str) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(logs._PrivateFile, "shouldRollover", disk_full)
    log.info("private words")
    assert output.getvalue().count("private words") == 1
    assert "Traceback" not in output.getvalue()


def test_the_file_turns_and_every_generation_is_private(
    start: Callable[..., io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 500)
    start(stderr=False)
    for number in range(40):
        log.info("line %s", number)
    files = sorted((tmp_path / "home" / "logs").iterdir())
    assert [path.name for path in files] == ["counsel.log", "counsel.log.1", "counsel.log.2", "counsel.log.3"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert "line 39" in file_text(tmp_path)


def test_a_process_notices_that_another_turned_the_file(
    start: Callable[..., io.StringIO], tmp_path: Path
) -> None:
    start(stderr=False)
    log.info("first")
    path = tmp_path / "home" / "logs" / "counsel.log"
    path.rename(path.with_suffix(".log.1"))
    log.info("second")
    assert "second" in file_text(tmp_path)


SECRETS = [
    "sk-" + "a" * 20, "rk-" + "a" * 20, "pk-" + "a" * 20, "AIza" + "a" * 35, "xai-" + "a" * 20, "ghp_" + "a" * 30,
    "github_pat_" + "a" * 30, "AKIA" + "A" * 16, "ASIA" + "A" * 16, "eyJ" + "a" * 10 + "." + "b" * 10 + ".c",
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", "ftp://me:secret99@host",
    "Authorization: abcdefgh", "PROXY-AUTHORIZATION: abcdefgh", "api_key=abcdefgh", "X-Goog-Api-Key: abcdefgh",
    "apikey: abcdefgh", "access-token: abcdefgh", "AccessToken=abcdefgh", "?key=abcdefgh", "MY_TOKEN=abcdefgh",
    "my_secret: abcdefgh", "Bearer abcdefgh",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
def test_every_shape_and_name_has_its_sign(secret: str) -> None:
    """The quick check before the patterns must not skip a text that a pattern matches."""
    assert redaction.HIDDEN in redaction.redact(f"so: {secret} end")


def test_keys_of_every_shape_in_one_text_are_all_hidden() -> None:
    result = redaction.redact("\n".join(SECRETS))
    assert result.count(redaction.HIDDEN) >= len(SECRETS)
    for piece in ("aaaaaaaa", "AAAAAAAA", "abcdefgh", "secret99", "bbbbbbbb", "\nabc\n"):
        assert piece not in result


def test_a_file_that_another_turned_is_not_turned_again(
    start: Callable[..., io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 100)
    start(stderr=False)
    log.info("first %s", "x" * 200)
    path = tmp_path / "home" / "logs" / "counsel.log"
    path.rename(path.with_suffix(".log.1"))
    path.write_text("of the other process\n")
    log.info("second")
    assert "of the other process" in file_text(tmp_path)
    assert "second" in file_text(tmp_path)


def test_logging_needs_no_heavy_import() -> None:
    code = "import counsel.logs, sys; print(any(name in sys.modules for name in ('aiohttp', 'mcp', 'click', 'PIL')))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"
