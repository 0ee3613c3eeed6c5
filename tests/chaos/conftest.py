"""Chaos happens on the same real servers and stage as the integration tests, or on servers of a test's own."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ops.embedded.embedded_servers import embedded_servers
from tests.chaos.lengths import SUMMARY
from tests.chaos.own_servers import stage_on
from tests.integration.conftest import dropped, forks, servers, settings, stage, store
from tests.integration.stage import Stage
from workers.embedded_services import Services
from workers.settings import Settings

__all__ = ["dropped", "forks", "servers", "settings", "stage", "store"]


@pytest.fixture
async def own_redis_stage(settings: Settings, tmp_path: Path) -> AsyncIterator[Stage]:
    """A Redis that this test alone may kill; it comes back on the same port."""
    async with (
        embedded_servers(tmp_path / "redis", mongodb=False) as services,
        stage_on(replace(settings, redis_url=services.redis_url), tmp_path) as stage,
    ):
        yield stage


@pytest.fixture
async def own_mongodb_stage(servers: Services, tmp_path: Path) -> AsyncIterator[Stage]:
    """A MongoDB that this test alone may kill; it comes back on the same port."""
    async with embedded_servers(tmp_path / "mongodb", redis=False) as services:
        # It is away for up to 15 s, since each start that is killed doubles the pause before the next. A lease that is
        # not renewed for half its length is lost, from up to a sixth before the outage to a sixth after it.
        settings = Settings(
            mongodb_url=services.mongodb_url, redis_url=servers.redis_url, queue=tmp_path.name, lease_s=120
        )
        async with stage_on(settings, tmp_path) as stage:
            yield stage


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if SUMMARY:
        terminalreporter.section("what the chaos cost")
        for line in SUMMARY:
            terminalreporter.write_line(line)
