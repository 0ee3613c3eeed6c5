"""The runbook's manifests against the product: its settings, its probes, and the numbers that depend on each other."""

import configparser
import re
from typing import Any

import yaml

from ops.cli.main import cli
from ops.supervisor import BEYOND_WORKERS_GRACE_S
from tests.unit.docs.test_docs import ROOT, blocks
from workers.settings import Settings, load_settings, unknown_variables

RUNBOOK = ROOT / "ops" / "runbook.md"
MIB = {"Mi": 1, "M": 1, "Gi": 1024, "G": 1024}


def manifest(field: str) -> dict[str, Any]:
    """The YAML block with this field at its top."""
    loaded = [yaml.safe_load(block.text) for block in blocks(RUNBOOK) if block.language == "yaml"]
    return next(each for each in loaded if field in each)


def worker() -> tuple[dict[str, Any], dict[str, Any], Settings]:
    """The pod, its container, and the settings that it gives."""
    pod = manifest("spec")["spec"]
    [container] = pod["containers"]
    environ = {each["name"]: each["value"] for each in container["env"]}
    assert unknown_variables(environ) == []
    return pod, container, load_settings(environ)


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_string(next(block.text for block in blocks(RUNBOOK) if block.language == "ini"))
    return parser


def mib(written: str) -> float:
    found = re.fullmatch(r"(\d+)([MG]i?)", written)
    assert found is not None, written
    return int(found[1]) * MIB[found[2]]


def test_both_start_the_worker() -> None:
    _, container, _ = worker()

    assert container["command"] == ["unattended", "worker"]
    assert unit()["Service"]["ExecStart"].split("/")[-1] == "unattended worker"
    assert "worker" in cli.commands


def test_whoever_stops_a_worker_waits_longer_than_its_grace() -> None:
    pod, _, settings = worker()

    assert pod["terminationGracePeriodSeconds"] == settings.grace_s + BEYOND_WORKERS_GRACE_S
    assert int(unit()["Service"]["TimeoutStopSec"]) == Settings().grace_s + BEYOND_WORKERS_GRACE_S


def test_a_worker_sees_its_own_memory_limit_before_the_kernel_does() -> None:
    _, container, settings = worker()

    assert settings.max_memory_mb <= 0.8 * mib(container["resources"]["limits"]["memory"])
    assert Settings().max_memory_mb <= 0.8 * mib(unit()["Service"]["MemoryMax"])


def test_probes_ask_where_a_worker_answers() -> None:
    _, container, settings = worker()
    probes = {name: probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")}

    # Starting may mean waiting for the broker: that is alive, and no reason to be killed.
    assert {name: each["path"] for name, each in probes.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {each["port"] for each in probes.values()} == {container["ports"][0]["name"]}
    assert container["ports"][0]["containerPort"] == settings.metrics_listen.port + 1
    assert settings.metrics_listen.host == "0.0.0.0"  # noqa: S104 -- compared, not bound


def test_the_scaler_asks_for_what_the_expression_divides() -> None:
    metadata = manifest("triggers")["triggers"][0]["metadata"]
    [expression] = [block.text.strip() for block in blocks(RUNBOOK) if block.language == "promql"]

    assert expression == f"ceil(({metadata['query']}) / {metadata['threshold']})"
    assert int(metadata["threshold"]) == worker()[2].concurrency
