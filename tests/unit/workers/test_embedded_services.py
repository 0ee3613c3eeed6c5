import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workers.embedded_services import (
    SERVICES_FILE,
    NothingRunning,
    Services,
    process_exists,
    read_services,
    remove_services,
    with_services,
    write_services,
)
from workers.settings import Settings


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def running_on(port: int) -> Services:
    return Services(
        mongodb_url=f"mongodb://127.0.0.1:{port}/?replicaSet=rs0",
        redis_url=f"redis://127.0.0.1:{port}/0",
        owner_pid=os.getpid(),
        mongodb_version="6.0.5",
        redis_version="9.1.2",
    )


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    return child.pid


def test_settings_with_both_urls_stay_as_they_are(tmp_path: Path) -> None:
    settings = Settings(mongodb_url="mongodb://a", redis_url="redis://b", data_dir=tmp_path / "absent")

    assert with_services(settings) is settings


def test_absent_urls_come_from_the_running_servers(tmp_path: Path, listening: int) -> None:
    services = running_on(listening)
    write_services(tmp_path, services)

    filled = with_services(Settings(data_dir=tmp_path))

    assert (filled.mongodb_url, filled.redis_url) == (services.mongodb_url, services.redis_url)


def test_a_given_url_wins_over_the_running_server(tmp_path: Path, listening: int) -> None:
    write_services(tmp_path, running_on(listening))

    filled = with_services(Settings(redis_url="redis://elsewhere", data_dir=tmp_path))

    assert filled.redis_url == "redis://elsewhere"
    assert filled.mongodb_url == running_on(listening).mongodb_url


def test_nothing_running_is_one_line_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(NothingRunning) as caught:
        with_services(Settings(data_dir=tmp_path))

    assert str(caught.value) == (
        "nothing is running: start `unattended up`, or set UNATTENDED_MONGODB_URL and UNATTENDED_REDIS_URL"
    )


def test_only_the_absent_url_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(NothingRunning, match=r"or set UNATTENDED_REDIS_URL$"):
        with_services(Settings(mongodb_url="mongodb://a", data_dir=tmp_path))


def test_the_file_is_for_its_owner_only(tmp_path: Path, listening: int) -> None:
    write_services(tmp_path, running_on(listening))

    assert (tmp_path / SERVICES_FILE).stat().st_mode & 0o777 == 0o600
    assert read_services(tmp_path) == running_on(listening)


def test_a_removed_file_means_nothing_runs(tmp_path: Path, listening: int) -> None:
    write_services(tmp_path, running_on(listening))

    remove_services(tmp_path)
    remove_services(tmp_path)

    assert read_services(tmp_path) is None


def test_the_file_of_a_killed_owner_is_stale(tmp_path: Path, listening: int) -> None:
    write_services(tmp_path, replace(running_on(listening), owner_pid=dead_pid()))

    assert read_services(tmp_path) is None


def test_closed_ports_are_stale(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    write_services(tmp_path, running_on(port))

    assert read_services(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"owner_pid": 1}', json.dumps({"mongodb_url": 1, "redis_url": 2, "owner_pid": "x"})],
)
def test_a_damaged_file_is_no_file(tmp_path: Path, content: str) -> None:
    (tmp_path / SERVICES_FILE).write_text(content, encoding="utf-8")

    assert read_services(tmp_path) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"owner_pid": "1"},
        {"owner_pid": None},
        {"mongodb_url": 5},
        {"redis_url": "redis://127.0.0.1:99999/0"},
        {"redis_url": "redis://127.0.0.1/0"},
        {"redis_url": "nonsense"},
    ],
)
def test_damaged_values_are_no_file(tmp_path: Path, listening: int, changed: dict[str, Any]) -> None:
    write_services(tmp_path, running_on(listening))
    raw = json.loads((tmp_path / SERVICES_FILE).read_text(encoding="utf-8"))
    (tmp_path / SERVICES_FILE).write_text(json.dumps(raw | changed), encoding="utf-8")

    assert read_services(tmp_path) is None


def test_which_processes_exist() -> None:
    assert process_exists(os.getpid())
    assert process_exists(1)
    assert not process_exists(dead_pid())
    assert not process_exists(0)
    assert not process_exists(-1)
    assert not process_exists(10**30)
