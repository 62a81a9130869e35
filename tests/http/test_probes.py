"""`/health`, `/ready` and `/metrics` as load balancers, orchestrators and Prometheus ask for them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from counsel import settings
from counsel.engine.history import prometheus
from counsel.engine.history.call_metrics import MOST_MODELS, MOST_PEOPLE, OTHER, CallMetrics
from counsel.engine.store.records import StoreError, UsageRecord
from counsel.errors import Internal
from counsel.http import probes
from counsel.http.api.endpoint import failed_with
from counsel.http.loading import LoadingApp
from counsel.http.worker_probes import WorkerProbes
from fake import FakeAPI
from support import api_client
from support.api_client import Api
from support.fake_engine import FakeEngine
from support.http_server import served

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.thorough]


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.migrated() as address:
        yield address


@pytest.fixture(autouse=True)
def no_cached_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "KEEP", 0.0)


async def readiness(api: Api) -> tuple[int, list[str]]:
    async with api.session.get("/ready", headers={"Authorization": ""}) as answer:
        document = await answer.json()
        assert document["status"] == ("ready" if answer.status == 200 else "not_ready")
        return answer.status, [reason["code"] for reason in document["reasons"]]


def team(folder: Path, url: str) -> Path:
    (folder / "counsel").mkdir(parents=True)
    (folder / "counsel" / ".env").write_text(f"COUNSEL_DATABASE={url}\n")
    return folder


async def test_a_server_is_ready_and_anybody_may_ask(tmp_path: Path, fake_api: FakeAPI) -> None:
    async with api_client.in_process(tmp_path, fake_api) as api:
        assert await readiness(api) == (200, [])


async def test_a_server_whose_database_is_away_is_alive_but_not_ready(
    tmp_path: Path, fake_api: FakeAPI, postgres_server: PostgresServer, url: str
) -> None:
    async with api_client.in_process(team(tmp_path, url), fake_api) as api:
        assert await readiness(api) == (200, [])
        import psycopg  # optional where these tests are skipped

        with psycopg.connect(url, autocommit=True) as database:
            database.execute("UPDATE counsel.migrations SET works_for = 1000, version = version + 1000")
            assert await readiness(api) == (503, ["schema"])
            database.execute("UPDATE counsel.migrations SET works_for = 1, version = version - 1000")
        assert await readiness(api) == (200, [])
        await asyncio.to_thread(postgres_server.stop)
        try:
            status, reasons = await readiness(api)
            async with api.session.get("/health") as alive:
                assert alive.status == 200
        finally:
            postgres_server.start()
            await asyncio.to_thread(postgres_server.wait)
        assert (status, reasons) == (503, ["database"])


def test_a_database_that_refuses_is_a_503_and_a_bug_a_500() -> None:
    """503: the request may be sent again, also to another server."""
    assert failed_with(StoreError("The database cannot be used.")).status_code == 503
    assert failed_with(Internal("This should not have happened.")).status_code == 500


async def test_a_queue_that_stands_still_is_reported_but_takes_no_server_out(
    tmp_path: Path, fake_api: FakeAPI, url: str
) -> None:
    async with api_client.in_process(team(tmp_path, url), fake_api, COUNSEL_READY_QUEUE_SECONDS="60") as api:
        fake_api.script(text="x", gate="never", gate_after=0)
        await api.post("/api/jobs", {"prompt": "wait", "model": "gpt-5", "mode": "background"})
        await fake_api.wait_for()
        import psycopg

        with psycopg.connect(url, autocommit=True) as database:
            database.execute("UPDATE counsel.jobs SET created = created - 100")
            assert await readiness(api) == (200, [])  # it runs
            database.execute(
                "INSERT INTO counsel.jobs (id, tool, conversation, turn, status, background, created, owner, attempt, "
                "fingerprint, caller, task, models, images, total, keep_days) "
                "SELECT 'job_waits', tool, 'other', 1, status, TRUE, created, '', 1, 'none', caller, task, models, "
                "images, total, keep_days FROM counsel.jobs"
            )
            assert await readiness(api) == (200, ["queue"])
            database.execute(
                "UPDATE counsel.jobs SET conversation = (SELECT conversation FROM counsel.jobs "
                "WHERE id != 'job_waits'), turn = 99 WHERE id = 'job_waits'"
            )
            assert await readiness(api) == (200, [])  # it waits for its turn
            database.execute("DELETE FROM counsel.jobs WHERE id = 'job_waits'")
        fake_api.open_gate("never")


async def test_a_server_that_starts_or_stops_is_not_ready(tmp_path: Path) -> None:
    config = settings.load({"COUNSEL_HOME": str(tmp_path)})
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def nothing() -> Any:
        raise AssertionError("nobody reads a body")

    starting = LoadingApp(nothing, config, print)  # type: ignore[arg-type]
    await starting({"type": "http", "method": "GET", "path": "/ready"}, nothing, send)
    assert messages[0]["status"] == 503
    assert json.loads(messages[1]["body"])["reasons"][0]["code"] == "starting"
    stopping = probes.Readiness(FakeEngine(), config, lambda: True)
    assert [reason["code"] for reason in await stopping.reasons()] == ["draining"]


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────


def families(text: str) -> dict[str, Any]:
    rows = list(text_string_to_metric_families(text))
    names = [family.name for family in rows]
    assert len(set(names)) == len(names), "a family is declared twice"
    return {family.name: family for family in rows}


@pytest.mark.parametrize("is_team", [False, True])
async def test_prometheus_reads_our_metrics(
    tmp_path: Path, fake_api: FakeAPI, url: str, is_team: bool
) -> None:
    folder = team(tmp_path, url) if is_team else tmp_path
    async with api_client.in_process(folder, fake_api, COUNSEL_METRICS_PEOPLE="1") as api:
        await api.post("/api/jobs", {"prompt": "hello", "model": "gpt-5"})
        async with api.session.get("/metrics") as answer:
            assert answer.content_type == "text/plain"
            text = await answer.text()
    metrics = families(text)
    calls = [sample for sample in metrics["counsel_calls"].samples if sample.labels["model"] == "gpt-5"]
    assert calls[0].value >= 1
    times = metrics["counsel_call_duration_seconds"]
    assert times.type == "histogram"
    buckets = [
        sample.value
        for sample in times.samples
        if sample.name.endswith("_bucket") and sample.labels["provider"] == "openai"
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] >= 1
    assert metrics["counsel_queue_jobs"].samples[0].value == 0
    for name in ("counsel_queue_oldest_seconds", "counsel_running_jobs", "counsel_job_duration_seconds"):
        assert metrics[name].samples
    assert metrics["process_resident_memory_bytes"].samples[0].value > 1_000_000
    assert metrics["process_cpu_seconds"].samples[0].value > 0


def test_a_process_began_before_its_metrics_were_asked_for() -> None:
    code = (
        "import time; now = time.time(); from counsel.engine.history import prometheus; "
        "print(now - prometheus._start_time())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) >= 0


async def test_the_metrics_token_opens_metrics_and_nothing_else(tmp_path: Path) -> None:
    async with served(tmp_path, COUNSEL_METRICS_TOKEN="only-for-prometheus") as client:
        headers = {"Authorization": "Bearer only-for-prometheus"}
        for path, status in (("/metrics", 200), ("/api/jobs", 401), ("/mcp", 401)):
            async with client.session.get(f"{client.base}{path}", headers=headers) as answer:
                assert answer.status == status
        async with client.session.get(f"{client.base}/metrics") as answer:
            assert answer.status == 401


def usage_record(provider: str, model: str, code: str = "") -> UsageRecord:
    return UsageRecord(0.0, "job", "chat", provider, model, "test", 1500, code, 1, 2, 0, 0, 0, 0.5, "/p")


def test_names_that_people_choose_do_not_make_series_without_end() -> None:
    metrics = CallMetrics()
    for number in range(3 * MOST_MODELS):
        metrics.called(usage_record("openrouter", f"model {number}"), f"person {number}")
    assert len(metrics.models) == MOST_MODELS + 1
    assert metrics.models["openrouter", OTHER].calls == 2 * MOST_MODELS
    assert len(metrics.people) == MOST_PEOPLE + 1
    assert metrics.people[OTHER].calls == 3 * MOST_MODELS - MOST_PEOPLE
    metrics.called(usage_record("a provider of the user's", "x", "TIMEOUT"), None)
    assert set(metrics.seconds) == {"openrouter", OTHER}


def test_names_are_escaped() -> None:
    metrics = CallMetrics()
    metrics.called(usage_record('a"b\\c\nd', "m"), None)
    text = "\n".join(line for family in prometheus._process_calls(metrics) for line in family) + "\n"
    assert families(text)["counsel_calls"].samples[0].labels["provider"] == 'a"b\\c\nd'


async def test_a_worker_answers_probes_and_shows_metrics_to_their_token_only(tmp_path: Path) -> None:
    config = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_METRICS_TOKEN": "only-for-prometheus"})
    server = await WorkerProbes(FakeEngine(), config, lambda: False).serve("127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, aiohttp.ClientSession() as session:
        for path, token, status in (
            ("/health", "", 200),
            ("/ready", "", 200),
            ("/metrics", "", 401),
            ("/metrics", "wrong", 401),
            ("/metrics", "only-for-prometheus", 200),
        ):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(f"{base}{path}", headers=headers) as answer:
                assert (answer.status, path, token) == (status, path, token)
