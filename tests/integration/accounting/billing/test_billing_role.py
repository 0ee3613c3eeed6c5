"""Billing by the scheduler role: each row arrives, whichever process is killed."""

import os
import signal
from asyncio.subprocess import Process
from dataclasses import replace

import pytest

from ops.processes.supervisor import role_command
from tests.integration.accounting.billing.receiver import HANGS, OK, SECRET, Answer, BillingReceiver, billing_receiver
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage, wait_until
from tests.integration.usage_rows import UsedCalls, insert_usage
from workers.settings import as_environment

pytestmark = pytest.mark.integration


async def start_scheduler(stage: Stage, receiver: BillingReceiver, name: str) -> Process:
    environ = {**os.environ, "BILLING_KEY": SECRET}
    settings = replace(
        stage.settings, billing_url=receiver.url, billing_secret=frozenset({"env:BILLING_KEY"}), environ=environ
    )
    process = await FORKS.start(
        role_command("scheduler"),
        env=as_environment(settings),
        log=stage.folder / f"{name}.log",
        folder=stage.folder,
    )
    stage.workers.append(process)
    return process


async def ledger_ids(stage: Stage) -> set[str]:
    return {row["_id"] async for row in stage.store.database["usage"].find({}, {"_id": 1})}


async def wait_until_all_arrived(stage: Stage, receiver: BillingReceiver) -> None:
    async def arrived() -> bool:
        waits = await stage.store.database["outbox"].count_documents({"state": {"$ne": "delivered"}})
        return waits == 0 and set(receiver.events) == await ledger_ids(stage)

    await wait_until("every row of the ledger has arrived", arrived)


async def test_every_row_arrives_though_senders_are_killed_between_post_and_mark(stage: Stage) -> None:
    calls = [UsedCalls(app_id=f"app-{number % 7}") for number in range(300)]
    await insert_usage(stage.store.database, calls[:150])
    async with billing_receiver() as receiver:
        first = await start_scheduler(stage, receiver, "first")

        def takes_and_kills(_: str) -> Answer:
            first.send_signal(signal.SIGKILL)
            return HANGS

        receiver.answer = takes_and_kills
        await first.wait()
        assert receiver.posts

        receiver.answer = lambda _: OK
        # Ends the claims of the dead process.
        await stage.store.database["outbox"].update_many({"claim": {"$exists": True}}, [{"$set": {"due_at": "$$NOW"}}])
        for name in ("second", "third"):
            await start_scheduler(stage, receiver, name)
        await insert_usage(stage.store.database, calls[150:])
        await wait_until_all_arrived(stage, receiver)

    assert len(receiver.posts) > len(receiver.bodies)
    assert all(len(bodies) == 1 for bodies in receiver.bodies.values())
    sent = [event for message in receiver.messages() for event in message["data"]["events"]]
    assert sorted(event["id"] for event in sent) == sorted(await ledger_ids(stage))
    assert sum(event["tokens_used"] for event in sent) == 300 * 110


async def test_a_role_with_a_hanging_endpoint_stops_on_sigterm(stage: Stage) -> None:
    await insert_usage(stage.store.database, [UsedCalls()])
    async with billing_receiver(lambda _: HANGS) as receiver:
        process = await start_scheduler(stage, receiver, "hanging")

        async def is_asked() -> bool:
            return receiver.at_once > 0

        await wait_until("the endpoint is asked", is_asked)
        process.terminate()

        async def has_ended() -> bool:
            return process.returncode is not None

        await wait_until("the role has ended", has_ended, within_s=10)

    assert process.returncode == 0
    assert "t0ken" not in (stage.folder / "hanging.log").read_text(encoding="utf-8")
