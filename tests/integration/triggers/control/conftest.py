"""The ground that tests of people's orders stand on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.triggers.control.ground import controlled
from triggers.role import TriggerGround
from workers.settings import Settings


@pytest.fixture
async def ground(settings: Settings, tmp_path: Path) -> AsyncIterator[TriggerGround]:
    async with controlled(settings, tmp_path) as ground:
        yield ground
