"""The Compose files match the product: its settings, probes, ports, limits and mounts."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.processes.role_processes import ROLES
from ops.processes.supervisor import EXTRA_WORKER_GRACE_S
from workers.settings import Settings, load_settings, unknown_variables

COMPOSE = Path(__file__).parents[3] / "ops" / "compose"
FILES = ("compose.yaml", "monitoring.yaml")
OURS = ("secrets", "flows", "../../.unattended/prometheus")  # created by the operator, or by `up`
OUR_PORTS = {"gateway": 8400, "exporter": 9400, "scheduler": 9401, "watcher": 9401, "worker": 9401}


@cache
def interpolate(name: str) -> dict[str, Any]:
    """Substitute the default of each ${NAME:-default}; every variable has one."""
    text = (COMPOSE / name).read_text(encoding="utf-8")
    text = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)
    assert "${" not in text
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def services(name: str = "compose.yaml") -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = interpolate(name)["services"]
    return found


def settings_of(role: str) -> Settings:
    environ = services()[role]["environment"]
    assert unknown_variables(environ) == []
    return load_settings(environ)


def environment_example() -> dict[str, str]:
    lines = (COMPOSE / ".env.example").read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"#([A-Z_]+)=(\S+)", line) for line in lines]
    return {each[1]: each[2] for each in found if each}


def mib(written: str) -> int:
    assert written.endswith("m"), written
    return int(written[:-1])


@pytest.mark.parametrize("name", FILES)
def test_published_ports_are_on_the_loopback(name: str) -> None:
    for service, each in services(name).items():
        assert all(port.startswith("127.0.0.1:") for port in each.get("ports", [])), service
        if each.get("network_mode") == "host":
            output = " ".join([*each.get("command", []), *each.get("environment", {}).values()])
            assert "127.0.0.1" in output, f"{service} listens on all addresses of the host"
            assert "0.0.0.0" not in output  # noqa: S104 -- compared, not bound


@pytest.mark.parametrize("name", FILES)
def test_images_have_a_version_and_mounts_a_source(name: str) -> None:
    compose = interpolate(name)
    for service, each in compose["services"].items():
        assert re.search(r":v?\d+\.\d+", each["image"]) or each["image"] == "unattended", service
        for mount in each.get("volumes", []):
            source, target, *mode = mount.split(":")
            if source.startswith("."):
                assert source.removeprefix("./") in OURS or (COMPOSE / source).exists(), mount
                assert mode == ["ro"], mount
            else:
                assert source in compose["volumes"], mount
            assert target.startswith("/")


def test_every_role_is_there_with_the_settings_it_reads() -> None:
    for role in ROLES:
        service = services()[role]
        settings = settings_of(role)

        assert service["command"] == [role]
        assert settings.production
        assert (settings.mongodb_url, settings.redis_url) == (
            "mongodb://mongodb:27017/?replicaSet=rs0",
            "redis://redis:6379/0",
        )
        assert {name: each["condition"] for name, each in service["depends_on"].items()} == {
            "mongodb": "service_healthy",
            "redis": "service_healthy",
        }
        assert {"read_only": True, "cap_drop": ["ALL"]}.items() <= service.items()


def test_probes_ask_where_a_role_answers() -> None:
    for role, port in OUR_PORTS.items():
        settings, test = settings_of(role), services()[role]["healthcheck"]["test"]

        assert test[-1] == f"http://127.0.0.1:{port}/readyz"
        compile(test[3], "probe", "exec")
        first = settings.listen.port if role == "gateway" else settings.metrics_listen.port
        assert port == first + (role not in ("gateway", "exporter"))
    assert services()["gateway"]["ports"] == ["127.0.0.1:8400:8400"]


def test_stopping_a_role_waits_longer_than_its_grace() -> None:
    example = environment_example()

    for role in ROLES:
        grace_s = int(services()[role]["stop_grace_period"].removesuffix("s"))
        assert grace_s >= settings_of(role).grace_s + EXTRA_WORKER_GRACE_S
    assert load_settings(example).grace_s + EXTRA_WORKER_GRACE_S == int(example["STOP_GRACE"].removesuffix("s"))


def test_a_worker_sees_its_own_memory_limit_before_the_kernel_does() -> None:
    assert settings_of("worker").max_memory_mb <= 0.8 * mib(services()["worker"]["mem_limit"])
    example = environment_example()
    assert load_settings(example).max_memory_mb <= 0.8 * mib(example["WORKER_MEMORY"])


def test_the_example_names_what_the_files_ask_for_and_settings() -> None:
    written = "".join((COMPOSE / name).read_text(encoding="utf-8") for name in ("compose.yaml",))
    asked = set(re.findall(r"\$\{([A-Z_]+):-", written)) - {"IMAGE", "UNATTENDED_LOG_FORMAT"}
    example = environment_example()

    assert asked <= set(example)
    assert unknown_variables(example) == []
    defaults = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", written))
    assert {name: example[name] for name in ("STOP_GRACE", "WORKER_MEMORY", "ENVIRONMENT")}.items() <= defaults.items()


def test_stores_are_reached_by_roles_only() -> None:
    on_stores = {name for name, each in services().items() if "stores" in each.get("networks", [])}

    assert on_stores == {*ROLES, "mongodb", "redis"}
    assert interpolate("compose.yaml")["networks"]["stores"] == {"internal": True}
    assert not any(services()[each].get("ports") for each in ("mongodb", "redis"))


def test_redis_forgets_nothing_and_mongodb_is_a_replica_set() -> None:
    redis, mongodb = services()["redis"]["command"], services()["mongodb"]

    assert redis[redis.index("--maxmemory-policy") + 1] == "noeviction"
    assert redis[redis.index("--appendonly") + 1] == "yes"
    assert mongodb["command"][:2] == ["--replSet", "rs0"]
    assert "isWritablePrimary" in mongodb["healthcheck"]["test"][-1]


def test_prometheus_finds_every_role_where_it_answers() -> None:
    config = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = config["scrape_configs"]
    found = {each["labels"]["role"]: each["targets"] for each in job["static_configs"]}
    [workers] = job["dns_sd_configs"]

    assert job["job_name"] == "unattended"
    assert found == {role: [f"{role}:{port}"] for role, port in OUR_PORTS.items() if role != "worker"}
    assert (workers["names"], workers["port"]) == (["worker"], OUR_PORTS["worker"])
    assert [each["target_label"] for each in job["relabel_configs"]] == ["role"]


@pytest.mark.parametrize("name", FILES)
def test_grafana_loads_our_dashboards_read_only(name: str) -> None:
    grafana = services(name)["grafana"]
    mounted = {target: COMPOSE / source for source, target, *_ in (each.split(":") for each in grafana["volumes"])}
    provisioning = mounted["/etc/grafana/provisioning"]
    [provider] = yaml.safe_load((provisioning / "dashboards" / "unattended.yaml").read_text())["providers"]
    [datasource] = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    dashboards = mounted[provider["options"]["path"]]
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])

    assert (dashboards / home.name).is_file()
    assert home.parent == Path(provider["options"]["path"])
    assert provider["folder"] == "Unattended"
    assert not provider["allowUiUpdates"]
    assert datasource["url"].removeprefix("$") in grafana["environment"]
    assert (datasource["uid"], datasource["type"]) == ("prometheus", "prometheus")
    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
