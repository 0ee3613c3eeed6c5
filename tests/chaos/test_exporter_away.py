"""MongoDB goes away under an exporter: its numbers stay, it says that they are old, and no counter ever goes back."""

from itertools import pairwise

import pytest
from pymongo.errors import PyMongoError

from ops.free_ports import find_free_address
from tests.chaos.own_servers import kill_listener, wait_for_mongodb
from tests.integration.ops.test_exporter_role import Series, counters, exporter, scrape, value
from tests.integration.stage import Stage, wait_until
from tests.integration.usage_rows import UsedCalls, insert_usage

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


async def test_an_exporter_outlasts_its_store(own_mongodb_stage: Stage) -> None:
    stage, address = own_mongodb_stage, find_free_address()
    await insert_usage(stage.store.database, [UsedCalls()] * 3)
    seen: list[Series] = []

    async def shown() -> Series:
        seen.append(await scrape(address))
        return seen[-1]

    async def says_it_is_away() -> bool:
        kill_listener(stage.settings.mongodb_url)
        return value(await shown(), "exporter_store_up") == 0

    async def shows_what_came_meanwhile() -> bool:
        return value(await shown(), "agent_input_tokens_total", workflow="Digest", agent="Writer") == 500

    async with exporter(stage, address):
        before = await shown()
        # Between two kills it may be read whole; each death keeps it away for longer.
        await wait_until("the exporter has noticed", says_it_is_away, within_s=60)
        away = seen[-1]
        await wait_for_mongodb(stage)
        await wait_until("two more calls are in the ledger", lambda: try_to_write(stage))
        await wait_until("the exporter has them", shows_what_came_meanwhile)

    assert value(before, "exporter_store_up") == value(seen[-1], "exporter_store_up") == 1
    assert counters(away) == counters(before)
    for earlier, later in pairwise(seen):
        assert {key for key, count in counters(earlier).items() if later[key] < count} == set()


async def try_to_write(stage: Stage) -> bool:
    try:
        await insert_usage(
            stage.store.database, [UsedCalls()] * (5 - await stage.store.database["usage"].count_documents({}))
        )
    except PyMongoError:
        return False
    return True
