"""Traces of triggers and of runs that lead to others: what the store keeps of them."""

from datetime import UTC, datetime

import pytest
from ulid import ULID

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from tests.unit.workers.tracing.span_bench import span_bench
from triggers.acceptance import Acceptance
from workers.control.run_replay import replay
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Claim, RunRequest, TriggerEvent
from workers.store.run_store import RunStore
from workers.tracing.span_ids import parse_traceparent, span_ids_of

pytestmark = pytest.mark.integration


class SilentWakeups:
    def send(self, run_id: str) -> None: ...


async def test_each_event_of_a_batch_begins_a_trace_of_its_own(bench: StreamBench) -> None:
    made = span_bench(role="watcher")
    bench._acceptance = Acceptance(bench.store, SilentWakeups(), made.tracing)
    bench.declare({}, {"name": "quiet", "debounce": "1h"})
    async with bench.watching():
        await bench.orders.insert_many([{"number": number} for number in range(3)])

        async def all_there() -> bool:
            return len(await bench.store.list()) == len(made.spans) == 6

        await wait_until(all_there, "two runs of each of three events")

    runs = await bench.store.list()
    carried = [parse_traceparent(run["traceparent"]) for run in runs]
    spans = {span.context.span_id: span for span in made.spans}
    assert {span.kind.name for span in made.spans} == {"CONSUMER"}
    assert len({span.context.trace_id for span in made.spans}) == 6
    for ids, run in zip(carried, runs, strict=True):
        assert ids is not None
        attributes = dict(spans[ids.span_id].attributes or {})
        assert (attributes["unattended.run_id"], attributes["unattended.accepted"]) == (run["_id"], "created")
    made.tracing.close()


async def claim_run(store: RunStore, run_id: str) -> Claim:
    claim = await MongoRunRepository(store, owner="me", lease_s=30).claim(run_id)
    assert claim is not None
    return claim


async def test_a_run_points_to_the_one_it_follows_and_to_the_one_it_replays(store: RunStore) -> None:
    made = span_bench()
    event = TriggerEvent("run_finished", "after", str(ULID()), fired_at=datetime.now(UTC))
    first = await store.insert(RunRequest("acme", "Digest", event, traceparent=f"00-{'a' * 32}-{'b' * 16}-01"))
    of_first = await claim_run(store, first.run_id)
    with made.tracing.run_span(of_first):
        pass
    await store.runs.update_one({"_id": first.run_id}, {"$set": {"state": "failed"}})
    event = TriggerEvent("run_finished", "after", str(ULID()), fired_at=datetime.now(UTC))
    after = await store.insert(RunRequest("acme", "Orders", event, parent_run_id=first.run_id))
    again = await replay(store, SilentWakeups(), first.run_id, by="ada")

    links = {}
    for run_id in (after.run_id, again.new_run_id):
        claim = await claim_run(store, str(run_id))
        with made.tracing.run_span(claim):
            await made.tracing.link_related_runs(claim, MongoRunRepository(store, owner="me", lease_s=30))
        [link] = made.spans[-1].links
        links[str(dict(link.attributes or {})["unattended.link"])] = link.context

    ids = span_ids_of(of_first.document, token=of_first.token)
    assert {how: (to.trace_id, to.span_id) for how, to in links.items()} == {
        "follows": (ids.trace_id, ids.span_id),
        "replays": (ids.trace_id, ids.span_id),
    }
    assert ids.span_id == made.spans[0].context.span_id
    made.tracing.close()
