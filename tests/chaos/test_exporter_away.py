"""MongoDB goes away under an exporter: its numbers stay, it says that they are old, and no counter ever goes back."""

from itertools import pairwise

import pytest
from pymongo.errors import PyMongoError

from ops.free_ports import free_address
from tests.chaos.own_servers import kill_listener, mongodb_is_back
from tests.integration.ops.test_exporter import Series, counters, exporter, scraped, value
from tests.integration.stage import Stage, until
from tests.integration.usage_rows import Used, use

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


async def test_an_exporter_outlasts_its_store(own_mongodb_stage: Stage) -> None:
    stage, address = own_mongodb_stage, free_address()
    await use(stage.store.database, [Used()] * 3)
    seen: list[Series] = []

    async def shown() -> Series:
        seen.append(await scraped(address))
        return seen[-1]

    async def says_it_is_away() -> bool:
        kill_listener(stage.settings.mongodb_url)
        return value(await shown(), "exporter_store_up") == 0

    async def shows_what_came_meanwhile() -> bool:
        return value(await shown(), "agent_input_tokens_total", workflow="Digest", agent="Writer") == 500

    async with exporter(stage, address):
        before = await shown()
        # Between two kills it may be read whole; each death keeps it away for longer.
        await until("the exporter has noticed", says_it_is_away, within_s=60)
        away = seen[-1]
        await mongodb_is_back(stage)
        await until("two more calls are in the ledger", lambda: written(stage))
        await until("the exporter has them", shows_what_came_meanwhile)

    assert value(before, "exporter_store_up") == value(seen[-1], "exporter_store_up") == 1
    assert counters(away) == counters(before)
    for earlier, later in pairwise(seen):
        assert {key for key, count in counters(earlier).items() if later[key] < count} == set()


async def written(stage: Stage) -> bool:
    try:
        await use(stage.store.database, [Used()] * (5 - await stage.store.database["usage"].count_documents({})))
    except PyMongoError:
        return False
    return True
