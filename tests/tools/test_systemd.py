"""The systemd units: valid, well confined by systemd's own rating, and consistent with the product."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ops.processes.role_processes import ROLES
from ops.processes.supervisor import EXTRA_WORKER_GRACE_S
from tests.programs import require_program
from tests.promtool import promtool
from workers.settings import Settings, load_settings, unknown_variables

UNITS = Path(__file__).parents[2] / "ops" / "systemd"
COMMON = UNITS / "unattended-.service.d" / "roles.conf"
PROGRAM = "/opt/unattended/.venv/bin/unattended"
INSTANCES = ("1", "9")
NAMES = [f"unattended-{role}.service" for role in ROLES if role != "worker"] + ["unattended-worker@1.service"]


def read(path: Path) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names are capitalized
    parser.read(path)
    return parser


def unit_of(role: str) -> Mapping[str, str]:
    name = f"unattended-{role}@.service" if role == "worker" else f"unattended-{role}.service"
    return {**read(COMMON)["Service"], **read(UNITS / name)["Service"]}


def settings_of(role: str, instance: str = "1") -> Settings:
    example = (UNITS / "unattended.env.example").read_text(encoding="utf-8").splitlines()
    example_settings = [line for line in example if line and not line.startswith("#")]
    own = unit_of(role).get("Environment", "").replace("%i", instance)
    environ = dict(line.split("=", 1) for line in [*example_settings, *own.split()])
    assert unknown_variables(environ) == []
    return load_settings(environ)


def port_of(role: str, instance: str = "1") -> int:
    settings = settings_of(role, instance)
    if role == "gateway":
        return settings.listen.port
    return settings.metrics_listen.port + (role != "exporter")


def systemd_analyze(*arguments: str, folder: Path) -> tuple[int, str]:
    program = require_program("systemd-analyze", package="systemd")
    environ = {"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=60, env=environ, cwd=folder
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Write the units with a program that exists on this machine."""
    folder = tmp_path / "system"
    shutil.copytree(UNITS, folder)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace(PROGRAM, sys.executable))
    return folder


def test_systemd_takes_them(installed: Path) -> None:
    assert systemd_analyze("verify", "unattended.target", *NAMES, folder=installed) == (0, "")


def test_systemd_thinks_them_confined(installed: Path) -> None:
    for name in NAMES:
        status, output = systemd_analyze("security", "--offline=yes", "--threshold=20", f"./{name}", folder=installed)
        assert status == 0, output


def test_each_starts_its_role_and_the_target_all_of_them() -> None:
    for role in ROLES:
        assert unit_of(role)["ExecStart"] == f"{PROGRAM} {role}"
        assert unit_of(role)["Restart"] == "always"
    assert read(COMMON)["Unit"]["StartLimitIntervalSec"] == "0"
    assert set(read(UNITS / "unattended.target")["Unit"]["Wants"].split()) == set(NAMES)


def test_stopping_a_role_waits_longer_than_its_grace() -> None:
    assert int(unit_of("worker")["TimeoutStopSec"]) == settings_of("worker").grace_s + EXTRA_WORKER_GRACE_S
    assert int(unit_of("gateway")["TimeoutStopSec"]) > 10  # the gateway's grace for open requests


def test_a_worker_sees_its_own_memory_limit_before_the_kernel_does() -> None:
    limit = re.fullmatch(r"(\d+)M", unit_of("worker")["MemoryMax"])

    assert limit is not None
    assert settings_of("worker").max_memory_mb <= 0.8 * int(limit[1])


def test_no_two_of_them_want_one_port_and_all_are_on_the_loopback() -> None:
    ports = [port_of(role) for role in ROLES] + [port_of("worker", instance) for instance in INSTANCES[1:]]

    assert len(set(ports)) == len(ports)
    assert {settings_of(role).metrics_listen.host for role in ROLES} == {"127.0.0.1"}
    assert settings_of("gateway").listen.host == "127.0.0.1"


def test_prometheus_finds_every_role_where_it_answers() -> None:
    path = UNITS / "prometheus.yml"
    status, output = promtool("check", "config", "--syntax-only", path)
    [job] = yaml.safe_load(path.read_text(encoding="utf-8"))["scrape_configs"]

    assert status == 0, output
    assert job["job_name"] == "unattended"
    assert {each["labels"]["role"]: each["targets"] for each in job["static_configs"]} == {
        role: [f"127.0.0.1:{port_of(role)}"] for role in ROLES
    }
