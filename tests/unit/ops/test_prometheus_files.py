"""Addresses of the roles of `up`, and the files that it writes for Prometheus."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ops.embedded.embedded_error import EmbeddedError
from ops.free_ports import find_free_address, resolve_port
from ops.processes.role_processes import ROLES, role_addresses, role_children
from ops.prometheus_files import ALERTS_FOLDER, scrape_config_path, scrape_files, scrape_targets
from workers.setting_values import Address
from workers.settings import Settings, load_settings


@pytest.fixture
def settings() -> Settings:
    return replace(Settings(), listen=find_free_address(), metrics_listen=find_free_address())


def test_each_role_is_given_a_port_of_its_own_and_takes_that_one(settings: Settings) -> None:
    at = role_addresses(settings)

    assert set(at) == set(ROLES)
    assert len(set(at.values())) == len(ROLES)
    assert (at["gateway"], at["exporter"]) == (settings.listen, settings.metrics_listen)
    for child in role_children(settings, at):
        address = load_settings(child.env).metrics_listen
        if child.name in ("scheduler", "watcher", "worker"):  # roles take the first free port after this one
            assert Address(address.host, address.port + 1) == at[child.name]
        else:
            assert address == settings.metrics_listen


def test_a_taken_port_and_the_gateways_are_left_out(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        beside = replace(
            settings, metrics_listen=Address("127.0.0.1", taken - 1), listen=Address("127.0.0.1", taken + 1)
        )
        ports = {each.port for role, each in role_addresses(beside).items() if role not in ("gateway", "exporter")}

    assert not ports & {taken, taken + 1}
    assert min(ports) > taken


def test_any_port_becomes_a_certain_one() -> None:
    assert resolve_port(Address("127.0.0.1", 0)).port > 0
    assert resolve_port(Address("127.0.0.1", 9400)) == Address("127.0.0.1", 9400)


def test_targets_are_where_prometheus_reaches_them() -> None:
    at = {"gateway": Address("0.0.0.0", 8400), "exporter": Address("::", 9400), "worker": Address("127.0.0.1", 9403)}  # noqa: S104 -- not bound

    assert scrape_targets(at) == [
        {"targets": ["127.0.0.1:8400"], "labels": {"role": "gateway"}},
        {"targets": ["[::1]:9400"], "labels": {"role": "exporter"}},
        {"targets": ["127.0.0.1:9403"], "labels": {"role": "worker"}},
    ]


def test_the_files_name_each_other_and_the_targets_go_when_all_is_stopped(tmp_path: Path) -> None:
    at = {"gateway": Address("127.0.0.1", 8400)}
    config = scrape_config_path(tmp_path / "data")

    with scrape_files(tmp_path / "data", at):
        written = yaml.safe_load(config.read_text())
        [job] = written["scrape_configs"]
        [found] = job["file_sd_configs"][0]["files"]
        assert json.loads(Path(found).read_text()) == scrape_targets(at)
        assert (tmp_path / "data").stat().st_mode & 0o077 == 0
        assert config.parent.stat().st_mode & 0o055 == 0o055

    assert job["job_name"] == "unattended"
    assert written["rule_files"] == [f"{ALERTS_FOLDER}/*.yaml"]
    assert list(ALERTS_FOLDER.glob("*.yaml"))
    assert not Path(found).exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    with (
        pytest.raises(EmbeddedError, match=r"cannot be written \(.+\); choose another --data-dir$"),
        scrape_files(tmp_path / "data", {}),
    ):
        pass
