"""Prometheus and the configuration of the compose file."""

from pathlib import Path

import pytest

from tests.promtool import promtool

COMPOSE = Path(__file__).parents[2] / "ops" / "compose"


@pytest.mark.parametrize("name", ["prometheus.yml", "host.yml"])
def test_prometheus_takes_its_configuration(name: str) -> None:
    status, said = promtool("check", "config", "--syntax-only", COMPOSE / "prometheus" / name)

    assert status == 0, said
