"""The chart matches the product: commands, settings, ports, timeouts, rules and dashboards."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.cli.main import cli
from ops.processes.supervisor import EXTRA_WORKER_GRACE_S, GRACE_S
from tests.promtool import promtool
from tests.tools.helm.chart import CHART, EVERYTHING, MINIMAL, ROLES, ROOT, SETS, Rendered, pod_of, render_chart
from tests.unit.docs.test_docs import blocks, resolve_command
from workers.settings import Settings, load_settings, unknown_variables

Render = Callable[[str], Rendered]
MIB = 1024 * 1024
UNITS = {"Gi": 1024**3, "Mi": MIB, "G": 10**9, "M": 10**6}


def settings_of(shown: Rendered, role: str) -> Settings:
    """Load settings as the process would; secrets have a placeholder."""
    environ = {each["name"]: each.get("value", "secret") for each in shown.container(role)["env"]}
    assert unknown_variables(environ) == []
    return load_settings(environ)


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert chart["appVersion"] == project["version"]


@pytest.mark.parametrize("name", SETS)
def test_containers_start_roles_that_can_read_their_settings(render: Render, name: str) -> None:
    shown = render(name)

    for role in ROLES:
        assert shown.container(role)["command"] == ["unattended", role]
        assert role in cli.commands
        assert settings_of(shown, role).production
        assert settings_of(shown, role).log_format == "json"


def test_numbers_and_flags_reach_the_settings_as_they_were_written(render: Render) -> None:
    settings = settings_of(render("everything"), "gateway")

    assert settings.body_limit_bytes == 2097152  # and not 2.097152e+06
    assert settings.include_schema is False
    assert settings.caps.app_cap("acme") == 20


def test_a_role_listens_where_its_probes_ask(render: Render) -> None:
    shown = render("minimal")

    for role in ROLES:
        container, settings = shown.container(role), settings_of(shown, role)
        [port] = container["ports"]
        address = settings.listen if role == "gateway" else settings.metrics_listen
        assert address.host == "0.0.0.0"  # noqa: S104 -- compared, not bound
        assert port["containerPort"] == address.port + (role not in ("gateway", "exporter"))
        probes = {name: probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")}
        # A role that waits for MongoDB or Redis is alive; a restart would not help.
        assert probes == {
            "startupProbe": {"path": "/healthz", "port": port["name"]},
            "livenessProbe": {"path": "/healthz", "port": port["name"]},
            "readinessProbe": {"path": "/readyz", "port": port["name"]},
        }


@pytest.mark.parametrize("name", SETS)
def test_kubernetes_waits_longer_than_a_role_needs_to_stop(render: Render, name: str) -> None:
    shown = render(name)
    granted = {role: pod_of(shown.of_role("Deployment", role))["terminationGracePeriodSeconds"] for role in ROLES}
    *_, before_stop_s = shown.container("gateway")["lifecycle"]["preStop"]["exec"]["command"]

    assert granted["worker"] == settings_of(shown, "worker").grace_s + EXTRA_WORKER_GRACE_S
    assert granted["gateway"] >= int(before_stop_s) + GRACE_S
    assert all(granted[role] >= GRACE_S for role in ("scheduler", "watcher", "exporter"))


@pytest.mark.parametrize("limit", ["2560Mi", "1Gi", "4G", "900M", "100000Mi"])
def test_a_worker_sees_its_own_memory_limit_before_the_kernel_does(renderer: Path, limit: str) -> None:
    shown = render_chart(renderer, {**MINIMAL, "worker": {"resources": {"limits": {"memory": limit}}}})
    number, unit = re.findall(r"\d+|[A-Za-z]+", limit)
    limit_mib = int(number) * UNITS[unit] / MIB

    assert 0.79 * limit_mib <= settings_of(shown, "worker").max_memory_mb <= 0.8 * limit_mib


def test_without_a_word_a_worker_has_the_products_own_numbers(render: Render) -> None:
    settings, default = settings_of(render("minimal"), "worker"), Settings()

    assert (settings.concurrency, settings.grace_s, settings.max_memory_mb) == (
        default.concurrency,
        default.grace_s,
        default.max_memory_mb,
    )


def test_the_scaler_asks_for_what_the_runbook_names(render: Render, tmp_path: Path) -> None:
    shown = render("everything")
    [scaled] = shown.of_kind("ScaledObject")
    [trigger] = scaled["spec"]["triggers"]
    rule = tmp_path / "rule.yaml"
    recorded = [{"name": "g", "rules": [{"record": "workers", "expr": trigger["metadata"]["query"]}]}]
    rule.write_text(json.dumps({"groups": recorded}), encoding="utf-8")

    assert scaled["spec"]["scaleTargetRef"]["name"] == shown.of_role("Deployment", "worker")["metadata"]["name"]
    assert int(trigger["metadata"]["threshold"]) == settings_of(shown, "worker").concurrency
    assert trigger["metadata"]["ignoreNullValues"] == "false"  # a missing exporter must not scale workers down
    by_hand = [block.text.strip() for block in blocks(ROOT / "ops" / "runbook.md") if block.language == "promql"]
    assert f"ceil(({trigger['metadata']['query']}) / {Settings().concurrency})" in by_hand
    status, output = promtool("check", "rules", rule)
    assert status == 0, output


def moved(text: str) -> str:
    return text.replace("http://127.0.0.1:8400", "https://flows.example")


def test_rules_are_the_shipped_ones_and_lead_to_the_public_address(render: Render, tmp_path: Path) -> None:
    shipped = sorted((ROOT / "ops" / "alerts").glob("*.yaml"))
    shown = render("everything").of_kind("PrometheusRule")
    groups = [group for each in shown for group in each["spec"]["groups"]]

    assert len(shown) == len(shipped) > 0
    assert [each["spec"] for each in shown] == [
        yaml.safe_load(moved(path.read_text(encoding="utf-8"))) for path in shipped
    ]
    assert {each["metadata"]["labels"]["release"] for each in shown} == {"prometheus"}
    links = {rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert {each.partition("#")[0] for each in links} == {"https://flows.example/console/runbook"}
    whole = tmp_path / "rules.yaml"
    whole.write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    status, output = promtool("check", "rules", whole)
    assert status == 0, output


def test_dashboards_are_the_shipped_ones_and_lead_to_the_public_address(render: Render) -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "ops" / "dashboards").glob("*.json")}
    marked = [
        each
        for each in render("everything").of_kind("ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    shown: dict[str, Any] = {name: text for each in marked for name, text in each["data"].items()}

    assert set(shown) == set(shipped), "each of ops/dashboards needs a link in ops/helm/unattended/files/dashboards"
    assert len(shown) == len(marked) > 0
    assert {name: json.loads(text) for name, text in shown.items()} == {
        name: json.loads(moved(text)) for name, text in shipped.items()
    }
    assert {each["metadata"]["annotations"]["grafana_folder"] for each in marked} == {"Unattended"}
    assert all(len(text) < 1_000_000 for text in shown.values())  # a ConfigMap's limit


def test_the_models_file_is_taken_from_the_values(render: Render) -> None:
    shown = render("everything")
    [models] = [each for each in shown.of_kind("ConfigMap") if "models.yaml" in each["data"]]
    [volume] = [each for each in pod_of(shown.of_role("Deployment", "worker"))["volumes"] if each["name"] == "models"]

    assert yaml.safe_load(models["data"]["models.yaml"]) == EVERYTHING["models"]["config"]
    assert volume["configMap"]["name"] == models["metadata"]["name"]
    assert settings_of(shown, "worker").models == Path("/etc/unattended/models/models.yaml")


def test_the_operators_file_is_taken_from_the_values(render: Render) -> None:
    shown = render("everything")
    [file] = [each for each in shown.of_kind("ConfigMap") if "unattended.yaml" in each["data"]]
    volumes = pod_of(shown.of_role("Deployment", "worker"))["volumes"]

    assert yaml.safe_load(file["data"]["unattended.yaml"]) == EVERYTHING["operatorFile"]["config"]
    assert {"name": "operator-file", "configMap": {"name": file["metadata"]["name"]}} in volumes
    assert settings_of(shown, "worker").config == Path("/etc/unattended/operator/unattended.yaml")
    assert settings_of(render("minimal"), "worker").config is None


@pytest.mark.parametrize("name", SETS)
def test_notes_name_what_there_is(render: Render, name: str) -> None:
    shown = render(name)
    notes = shown.notes
    existing = {each["metadata"]["name"] for each in shown.documents}

    assert set(re.findall(r"(?:deploy/|deployment |service/)(\S+)", notes)) <= existing
    commands = [shlex.split(each) for each in re.findall(r"-- unattended (.+)$", notes, re.MULTILINE)]
    assert [words[0] for words in commands] == ["enqueue", "runs", "keys"]
    for words in commands:
        command, arguments = resolve_command(words)
        command.make_context(command.name, arguments)  # raises if an option is unknown or an argument is missing
    assert ("No models file" in notes) == (name == "minimal")
    assert ("https://flows.example/hooks/" in notes) == (name == "everything")
