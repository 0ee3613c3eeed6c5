"""Fixtures of the trigger control tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.triggers.control.trigger_bench import control_context
from triggers.role_context import RoleContext
from workers.settings import Settings


@pytest.fixture
async def ground(settings: Settings, tmp_path: Path) -> AsyncIterator[RoleContext]:
    async with control_context(settings, tmp_path) as ground:
        yield ground
