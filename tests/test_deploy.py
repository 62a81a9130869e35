"""Dockerfile, compose.yaml, Kubernetes manifests and systemd units use only existing commands, options and settings."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped] # no stubs

from counsel import settings
from counsel.cli import cli

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
FILES = sorted(
    [ROOT / "Dockerfile", ROOT / "compose.yaml", *(path for path in DEPLOY.rglob("*") if path.is_file())]
)
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
MANIFESTS: list[Any] = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
# Of the build and of compose's own file, not of the program.
OTHER_VARIABLES = {"COUNSEL_HOME", "COUNSEL_REQUIRE_CONSOLE", "COUNSEL_PUBLIC_HOST"}


def containers() -> Iterator[Any]:
    for document in MANIFESTS:
        template = (
            document.get("spec", {}).get("template") if isinstance(document.get("spec"), dict) else None
        )
        yield from template["spec"]["containers"] if template else ()


def commands() -> Iterator[tuple[str, list[str]]]:
    dockerfile = (ROOT / "Dockerfile").read_text()
    (last,) = re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)
    yield "Dockerfile", json.loads(last)
    for name, service in COMPOSE["services"].items():
        if service["image"] == "counsel":
            yield f"compose.yaml: {name}", service["command"]
    for container in containers():
        yield f"kubernetes: {container['name']}", container["args"]
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        (line,) = re.findall(r"^ExecStart=/opt/counsel/bin/counsel (.*)$", unit.read_text(), re.MULTILINE)
        yield unit.name, shlex.split(line)


@pytest.mark.parametrize(("where", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_exists_with_its_options(where: str, command: list[str]) -> None:
    program: click.Command | None = cli
    rest = list(command)
    while isinstance(program, click.Group):
        program = program.get_command(click.Context(program), rest.pop(0))
    assert program is not None, f"{where}: {command}"
    program.make_context(where, rest)  # raises for an unknown option or a value that is not possible


def test_every_setting_exists() -> None:
    names = {row.metadata["env"] for row in settings.rows()} | OTHER_VARIABLES
    for path in FILES:
        for name in re.findall(r"\bCOUNSEL_[A-Z_]+\b", path.read_text()):
            assert name in names, f"{path.name}: {name}"
    for document in MANIFESTS:
        if document["kind"] == "ConfigMap":
            result = settings.load({"COUNSEL_HOME": "/nowhere", **document["data"]})
            assert result.problems == ()


def test_nobody_is_root_and_no_secret_is_in_a_file() -> None:
    assert re.search(r"^USER 10001:10001$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for container in containers():
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"secretRef": {"name": "counsel"}} in container["envFrom"]
    assert not [document for document in MANIFESTS if document["kind"] == "Secret"]
    for path in FILES:
        assert not re.search(r"sk-[A-Za-z0-9]{8}|csl_[A-Za-z0-9]", path.read_text()), path.name


def test_a_server_is_asked_whether_it_is_ready_and_has_time_to_drain() -> None:
    (variables,) = (document["data"] for document in MANIFESTS if document["kind"] == "ConfigMap")
    for document in MANIFESTS:
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            assert pod["terminationGracePeriodSeconds"] > int(variables["COUNSEL_DRAIN_SECONDS"]) + 5
            (container,) = pod["containers"]
            assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
            assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    for name in ("server1", "server2", "worker"):
        service = COMPOSE["services"][name]
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace > int(service["environment"]["COUNSEL_DRAIN_SECONDS"])
    assert "health_uri /ready" in (DEPLOY / "caddy" / "Caddyfile").read_text()


def test_the_database_counts_as_healthy_only_when_others_can_connect() -> None:
    """While the database is created, its server listens on the socket only, and the migration would be refused."""
    test = COMPOSE["services"]["postgres"]["healthcheck"]["test"]
    assert test[:2] == ["CMD", "pg_isready"]
    assert "--host=127.0.0.1" in test


def test_what_an_orchestrator_adds_is_no_setting() -> None:
    """For a service `counsel` Kubernetes sets COUNSEL_PORT=tcp://…, unless a pod refuses."""
    services = [document["metadata"]["name"] for document in MANIFESTS if document["kind"] == "Service"]
    assert services == ["counsel"]
    for document in MANIFESTS:
        if document["kind"] in {"Deployment", "Job"}:
            assert document["spec"]["template"]["spec"]["enableServiceLinks"] is False, document["metadata"]


def test_the_proxy_holds_no_events_back_and_tells_who_has_hung_up() -> None:
    lines = (DEPLOY / "caddy" / "Caddyfile").read_text().splitlines()
    words = {line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")}
    assert not words & {"encode", "flush_interval"}


def test_a_password_of_any_characters_reaches_the_database() -> None:
    for name in ("migrate", "server1", "server2", "worker"):
        environment = COMPOSE["services"][name]["environment"]
        assert "POSTGRES_PASSWORD" not in environment["COUNSEL_DATABASE"]
        assert "POSTGRES_PASSWORD" in environment["PGPASSWORD"]


def test_the_lock_of_the_image_has_what_the_extras_need() -> None:
    lock = (ROOT / "requirements-team.lock").read_text()
    for package in (
        "psycopg",
        "psycopg-pool",
        "authlib",
        "cryptography",
        "opentelemetry-sdk",
        "procrastinate",
    ):
        assert re.search(rf"^{package}==", lock, re.MULTILINE), package
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if "==" in line:
            assert line.split(" ")[0] in lock, "run `make lock`"


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    units = []
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace("/opt/counsel/bin/counsel", "/bin/true"))
    process = subprocess.run([analyze, "verify", *units], capture_output=True, text=True, check=False)
    lines = [line for line in process.stderr.splitlines() if "counsel-" in line]
    assert lines == []
