"""The billing sender against a real receiver that misbehaves in many ways."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from accounting.billing.delivery_backoff import DeliveryBackoff
from accounting.billing.endpoint_health import EndpointHealth, find_failures, forget_failures
from accounting.billing.http_post import create_http_client
from accounting.billing.outbox import Outbox, read_outbox_state
from accounting.billing.outbox_batches import find_batches, replay_batches
from accounting.billing.sender import IDLE_INTERVAL_S, UNSIGNED_INTERVAL_S, BillingSender
from tests.integration.accounting.billing.receiver import (
    HANGS,
    HANGS_UP,
    OK,
    SECRET,
    Answer,
    BillingReceiver,
    billing_receiver,
    random_failures,
    refusal,
)
from tests.integration.stage import wait_until
from tests.unit.accounting.billing.rows import row
from triggers.schedule.scheduler_role import post_bills
from workers.settings import Settings
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

HASTY = DeliveryBackoff(delays_s=(0.0, 0.0), max_endpoint_pause_s=0.0)
OTHER_SECRET = "whsec_" + "QUJD" * 10


@dataclass(frozen=True, slots=True)
class Billing:
    store: RunStore
    outbox: Outbox
    sender: Callable[..., BillingSender]
    stop: asyncio.Event

    async def rows(self, number: int) -> set[str]:
        made = [row(each) for each in range(number)]
        await self.outbox.add(made, None)
        return {each["_id"] for each in made}

    async def batches(self) -> list[dict[str, Any]]:
        return [dict(batch) for batch in await find_batches(self.store.database, limit=1_000)]

    async def only_batch(self) -> dict[str, Any]:
        [batch] = await self.batches()
        return batch

    async def trouble(self) -> dict[str, Any] | None:
        found = await find_failures(self.store.database, None)
        return dict(found[0]) if found else None


@pytest.fixture
async def billing(store: RunStore) -> AsyncIterator[Billing]:
    outbox = Outbox(store.database)
    stop = asyncio.Event()
    await outbox.ensure_indexes()
    async with create_http_client() as http:

        def sender(url: str, *secrets: str, pace: DeliveryBackoff = HASTY) -> BillingSender:
            given = secrets or (SECRET,)
            endpoint = EndpointHealth(store.database, url, pace)
            return BillingSender(
                outbox, endpoint, http, secrets=lambda: given, backoff=pace, stop=stop, chance=lambda: 0.0
            )

        yield Billing(store, outbox, sender, stop)


@asynccontextmanager
async def sending(billing: Billing, *senders: BillingSender) -> AsyncIterator[None]:
    """Runs each sender in four tasks, without pauses, until the end."""

    async def lane(sender: BillingSender) -> None:
        while not billing.stop.is_set():
            pause_s = await sender.post_next()
            await asyncio.sleep(min(pause_s, 0.01))

    async with asyncio.TaskGroup() as lanes:
        for sender in senders:
            for _ in range(4):
                lanes.create_task(lane(sender))
        yield
        billing.stop.set()


async def wait_until_all_delivered(billing: Billing) -> None:
    async def none_left() -> bool:
        state = await read_outbox_state(billing.store.database)
        return (state.pending, state.dead) == (0, 0)

    await wait_until("every batch is delivered", none_left)


async def test_events_arrive_signed_each_in_one_message(billing: Billing) -> None:
    ids = await billing.rows(120)
    async with billing_receiver() as receiver, sending(billing, billing.sender(receiver.url)):
        await wait_until_all_delivered(billing)

    assert set(receiver.events) == ids
    assert len(receiver.posts) == len(set(receiver.posts)) == len(await billing.batches())
    assert sum(len(message["data"]["events"]) for message in receiver.messages()) == 120
    assert {message["type"] for message in receiver.messages()} == {"usage.batch"}
    assert receiver.requests[0].startswith("POST /usage?token=t0ken HTTP/1.1\r\n")


async def test_both_secrets_sign_while_they_change(billing: Billing) -> None:
    await billing.rows(1)
    for secret in (SECRET, OTHER_SECRET):
        async with billing_receiver() as receiver:
            receiver.secret = secret
            assert await billing.sender(receiver.url, SECRET, OTHER_SECRET).post_next() == 0
        assert len(receiver.events) == 1
        await replay_batches(billing.store.database, [receiver.posts[0]])


async def test_what_fails_at_random_arrives_from_two_senders_with_the_same_bytes(billing: Billing) -> None:
    ids = await billing.rows(400)
    patient = DeliveryBackoff(delays_s=(0.0,) * 100, max_endpoint_pause_s=0.0)
    async with billing_receiver(random_failures(seed=7)) as receiver:
        two = [billing.sender(receiver.url, pace=patient) for _ in range(2)]
        async with sending(billing, *two):
            await wait_until_all_delivered(billing)

    assert set(receiver.events) == ids
    assert len(receiver.posts) > len(receiver.bodies)
    assert all(len(bodies) == 1 for bodies in receiver.bodies.values())
    assert await billing.trouble() is None


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (refusal(400, body=b"wrong\x00 \x1b[31msignature"), "it answered 400: wrong [31msignature"),
        (refusal(302, "location: /elsewhere\r\n"), "it answered 302: no"),
        (refusal(404, body=b""), "it answered 404"),
        (refusal(500, body=b"x" * 100_000), "it answered 500: " + "x" * 200),
        (refusal(503), "it answered 503: no"),
        (HANGS_UP, "the call failed (RemoteProtocolError)"),
        (replace(HANGS_UP, status=1), "the call failed (RemoteProtocolError)"),
    ],
    ids=["bad-request", "redirect", "not-found", "long-answer", "unavailable", "hangs-up", "no-http"],
)
async def test_a_refusal_is_noted_and_tried_again_until_the_batch_is_dead(
    billing: Billing, answer: Answer, what: str
) -> None:
    await billing.rows(1)
    async with billing_receiver(lambda _: answer) as receiver:
        sender = billing.sender(receiver.url)
        for failures in (1, 2):
            assert await sender.post_next() == 0
            batch = await billing.only_batch()
            assert (batch["state"], batch["failures"], batch["last_failure"]["what"]) == ("pending", failures, what)
        await sender.post_next()
        assert await sender.post_next() == IDLE_INTERVAL_S

    assert (await billing.only_batch())["state"] == "dead"
    assert len(receiver.posts) == 3
    assert receiver.events == {}


async def test_a_dead_batch_is_replayed_when_the_endpoint_is_mended(billing: Billing) -> None:
    ids = await billing.rows(1)
    async with billing_receiver(lambda _: refusal(500)) as receiver:
        sender = billing.sender(receiver.url)
        for _ in range(3):
            await sender.post_next()
        assert (await read_outbox_state(billing.store.database)).dead == 1

        receiver.answer = lambda _: OK
        assert await sender.post_next() == IDLE_INTERVAL_S
        await replay_batches(billing.store.database, None)
        await sender.post_next()

    assert set(receiver.events) == ids
    assert len(receiver.bodies) == 1


async def test_an_answer_without_an_end_counts_by_its_status_and_fills_no_memory(billing: Billing) -> None:
    await billing.rows(1)
    async with billing_receiver(lambda _: Answer(endless=True)) as receiver:
        await billing.sender(receiver.url, pace=replace(HASTY, answer_timeout_s=1.0, body_timeout_s=1_000)).post_next()

    assert (await billing.only_batch())["state"] == "delivered"


async def test_an_endpoint_that_never_answers_is_given_up_in_time(billing: Billing) -> None:
    await billing.rows(1)
    async with billing_receiver(lambda _: HANGS) as receiver:
        await billing.sender(receiver.url, pace=replace(HASTY, answer_timeout_s=0.2)).post_next()

    assert (await billing.only_batch())["last_failure"]["what"] == "no answer within 0.2 s"


async def test_an_endpoint_that_is_not_there_gets_what_waits_when_it_comes(billing: Billing) -> None:
    async with billing_receiver() as gone:
        url = gone.url
    ids = await billing.rows(60)
    sender = billing.sender(url, pace=DeliveryBackoff(delays_s=(0.0,) * 1_000, max_endpoint_pause_s=0.05))
    async with sending(billing, sender):

        async def has_failed() -> bool:
            trouble = await billing.trouble()
            return trouble is not None and trouble["failures"] > 5

        await wait_until("posts have failed", has_failed)
        async with billing_receiver(port=gone.address[1]) as receiver:
            await wait_until_all_delivered(billing)

    assert set(receiver.events) == ids


async def test_a_failing_endpoint_is_spared_by_all_senders(billing: Billing) -> None:
    await billing.rows(400)
    async with billing_receiver(lambda _: refusal(500)) as receiver:
        senders = [billing.sender(receiver.url, pace=DeliveryBackoff()) for _ in range(2)]
        assert await senders[0].post_next() == 0
        assert [await sender.post_next() for sender in senders] == [IDLE_INTERVAL_S, IDLE_INTERVAL_S]

    assert len(receiver.posts) == 1
    assert (await read_outbox_state(billing.store.database)).pending > 8


async def test_an_endpoint_that_asks_for_less_gets_less(billing: Billing) -> None:
    await billing.rows(1)
    async with billing_receiver(lambda _: refusal(429, "retry-after: 120\r\n")) as receiver:
        await billing.sender(receiver.url, pace=DeliveryBackoff()).post_next()

    batch, trouble = await billing.only_batch(), await billing.trouble()
    assert trouble is not None
    assert 119 <= (batch["due_at"] - batch["last_failure"]["at"]).total_seconds() <= 121
    assert 119 <= (trouble["paused_until"] - trouble["last_failure"]["at"]).total_seconds() <= 121


async def test_an_endpoint_that_is_gone_gets_nothing_until_it_is_resumed(billing: Billing) -> None:
    ids = await billing.rows(100)
    async with billing_receiver(lambda _: refusal(410)) as receiver:
        sender = billing.sender(receiver.url)
        await sender.post_next()
        assert [await sender.post_next() for _ in range(5)] == [IDLE_INTERVAL_S] * 5
        assert len(receiver.posts) == 1
        trouble = await billing.trouble()
        assert trouble is not None
        assert trouble["gone_at"] is not None
        assert {(batch["state"], batch["failures"]) for batch in await billing.batches()} == {("pending", 0)}

        await EndpointHealth(
            billing.store.database, receiver.url, HASTY
        ).record_success()  # another post that began before
        assert await sender.post_next() == IDLE_INTERVAL_S
        receiver.answer = lambda _: OK
        assert await forget_failures(billing.store.database, receiver.url) == 1
        async with sending(billing, sender):
            await wait_until_all_delivered(billing)

    assert set(receiver.events) == ids


async def test_another_url_starts_afresh(billing: Billing) -> None:
    ids = await billing.rows(1)
    async with billing_receiver(lambda _: refusal(410)) as gone, billing_receiver() as other:
        await billing.sender(gone.url).post_next()
        await billing.sender(other.url).post_next()

    assert set(other.events) == ids


async def test_where_usage_goes_is_written_nowhere(billing: Billing, caplog: pytest.LogCaptureFixture) -> None:
    await billing.rows(1)
    page = (
        b"<pre>Cannot POST /usage?token=t0ken&amp;</pre> Wrong token: t0ken"  # as a server answers for an unknown path
    )
    async with billing_receiver(lambda _: refusal(404, body=page)) as receiver:
        await billing.sender(receiver.url).post_next()

    trouble = await billing.trouble()
    assert trouble is not None
    assert trouble["last_failure"]["what"] == (
        "it answered 404: <pre>Cannot POST (hidden)&amp;</pre> Wrong token: (hidden)"
    )
    assert trouble["url"] == f"http://127.0.0.1:{receiver.address[1]}/…"
    assert "t0ken" not in str([await billing.batches(), trouble, caplog.records, *(vars(r) for r in caplog.records)])


async def test_without_a_usable_secret_nothing_is_sent_and_one_line_is_logged(
    billing: Billing, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await billing.rows(1)
    async with billing_receiver() as receiver:
        sender = billing.sender(receiver.url, "whsec_c2hvcnQ=")
        assert [await sender.post_next() for _ in range(3)] == [UNSIGNED_INTERVAL_S] * 3
        assert receiver.posts == []

        await billing.sender(receiver.url).post_next()

    assert set(receiver.events) == ids
    assert [record.message for record in caplog.records].count("billing_cannot_sign") == 1
    assert "c2hvcnQ" not in caplog.text


async def test_a_batch_that_was_posted_and_not_marked_is_posted_again_unchanged(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await billing.rows(1)

    async def away(*_: object) -> None:
        raise AutoReconnect

    async with billing_receiver() as receiver:
        sender = billing.sender(receiver.url)
        with monkeypatch.context() as patched:
            patched.setattr(Outbox, "mark_delivered", away)
            with pytest.raises(AutoReconnect):
                await sender.post_next()
        assert await sender.post_next() == IDLE_INTERVAL_S
        await billing.store.database["outbox"].update_many({}, [{"$set": {"due_at": "$$NOW"}}])
        await sender.post_next()

    assert len(receiver.posts) == 2
    assert [len(bodies) for bodies in receiver.bodies.values()] == [1]
    assert (await billing.only_batch())["state"] == "delivered"


async def send_bills(billing: Billing, settings: Settings, receiver: BillingReceiver) -> "asyncio.Task[None]":
    environ = {"SECRET": SECRET}
    with_billing = replace(
        settings, billing_url=receiver.url, billing_secret=frozenset({"env:SECRET"}), environ=environ
    )
    return asyncio.create_task(post_bills(billing.store.database, with_billing, stop=billing.stop))


async def test_the_role_posts_until_it_is_stopped(billing: Billing, settings: Settings) -> None:
    ids = await billing.rows(60)
    async with billing_receiver() as receiver:
        task = await send_bills(billing, settings, receiver)
        await wait_until_all_delivered(billing)
        billing.stop.set()
        await asyncio.wait_for(task, 5)

    assert set(receiver.events) == ids


async def test_a_stop_waits_for_no_endpoint_and_gives_the_batches_back(billing: Billing, settings: Settings) -> None:
    await billing.rows(600)
    async with billing_receiver(lambda _: HANGS) as receiver:
        task = await send_bills(billing, settings, receiver)

        async def four() -> bool:
            return receiver.at_once == 4

        await wait_until("four posts are under way", four)
        billing.stop.set()
        await asyncio.wait_for(task, 5)
        assert receiver.max_concurrent == 4

    batches = await billing.batches()
    assert {batch["failures"] for batch in batches} == {0}
    assert [await billing.outbox.claim() is not None for _ in batches] == [True] * len(batches)


async def test_without_an_endpoint_the_role_does_nothing(billing: Billing, settings: Settings) -> None:
    await asyncio.wait_for(post_bills(billing.store.database, settings, stop=asyncio.Event()), 5)
