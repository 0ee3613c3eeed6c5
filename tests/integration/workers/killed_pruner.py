"""A process that prunes and dies before its commit, after all writes.

`python -m tests.integration.workers.killed_pruner MONGODB_URL DATABASE`
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from datetime import timedelta

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure
from typing_extensions import override

from workers.store.run_pruner import Pruned, RunPruner
from workers.store.run_store import RunStore, connect


class DyingRetention(RunPruner):
    @override
    async def _prune_in(self, session: AsyncClientSession) -> Pruned:
        pruned = await super()._prune_in(session)
        assert pruned.runs > 0
        print("in the middle", flush=True)  # noqa: T201 -- the test waits for it
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


async def main(url: str, database: str) -> None:
    store = RunStore(connect(url, database=database))
    pruning = DyingRetention(store, timedelta(days=30))
    while True:
        with suppress(OperationFailure):  # other pruners may conflict
            await pruning.prune()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
