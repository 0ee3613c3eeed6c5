"""Trigger intake: event ids, mapped requests, and events that are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from tests.unit.triggers.property_settings import without_deadline
from triggers.acceptance import Acceptance
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.trigger_address import TriggerAddress
from triggers.gateway.trigger_intake import MAX_EVENT_ID_LENGTH, TriggerIntake, normalize_event_id
from triggers.gateway.trigger_lookup import TriggerLookup, TriggerTarget
from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import TriggerStats
from triggers.register.trigger_store import TriggerStore
from workers.settings import Settings
from workers.store.run import Accepted, RunRequest
from workers.store.run_document import run_document
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

PLACE = TriggerAddress("acme", "Sales", "lead")


class MemoryRunStore(RunStore):
    """A store in memory: one run per dedupe key."""

    def __init__(self) -> None:
        self.requests: dict[str, RunRequest] = {}

    async def insert(self, request: RunRequest) -> Accepted:
        run_document(request, now=datetime.now(UTC), republish_after=timedelta(0))
        created = request.dedupe_key not in self.requests
        self.requests.setdefault(request.dedupe_key, request)
        return Accepted("run_1", created=created)


class SilentWakeups:
    def send(self, run_id: str) -> None: ...


def reception(shelf: MemoryRunStore) -> TriggerIntake:
    """Builds an intake without a database: these tests neither look up triggers nor write stats."""
    database: AsyncDatabase[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:9", connect=False)["none"]
    store = TriggerStore(database)
    lookup, tally = TriggerLookup(dict, store), TriggerStats(store)
    return TriggerIntake(Settings(), lookup, Acceptance(shelf, SilentWakeups()), GatewayMetrics(), tally)


def found_trigger(spec: FormSpec) -> TriggerTarget[FormSpec]:
    return TriggerTarget(Trigger("Sales", spec), spec, None)


def form(**fields: Any) -> FormSpec:
    return FormSpec(name="lead", apps=("acme",), inputs={"email": FormInput(), "n": FormInput()}, **fields)


async def accepted_request(spec: FormSpec, event: dict[str, Any]) -> RunRequest:
    shelf = MemoryRunStore()
    await reception(shelf).accept(found_trigger(spec), PLACE, event, event_id="1")
    return next(iter(shelf.requests.values()))


async def test_mapped_values_become_input_and_message() -> None:
    spec = form(input={"to": "=email", "source": "shop"}, message="=join(' ', ['Write to', email])")

    request = await accepted_request(spec, {"email": "ada@example.com", "_request": {}})

    assert request.input == {"to": "ada@example.com", "source": "shop"}
    assert request.message == "Write to ada@example.com"
    assert request.dedupe_key == "Sales/lead/form_submit/acme/1"


async def test_a_given_input_goes_before_the_mapping() -> None:
    shelf, values = MemoryRunStore(), {"email": "ada@example.com"}
    await reception(shelf).accept(
        found_trigger(form()), PLACE, {**values, "_request": {}}, event_id="1", run_input=values
    )
    assert [request.input for request in shelf.requests.values()] == [values]


@pytest.mark.parametrize(
    ("mapping", "event"),
    [
        ({"input": {"x": "=ceil(to_number(email))"}}, {"email": "inf"}),
        ({"input": {"x": "=max_by(email, &a)"}}, {"email": [{"a": 1}, {"a": "x"}]}),
        ({"input": {"x": "=&email"}}, {}),
        ({"message": "=email"}, {"email": {}}),
        ({"message": "=email"}, {"email": "\ud800"}),
        ({"input": {"x": "=email"}}, {"email": 2**70}),
        ({"input": {"x": "=email"}}, {"email": {"$where": 1}}),
    ],
)
async def test_what_cannot_be_mapped_or_kept_is_a_bad_request(mapping: dict[str, Any], event: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as refused:
        await reception(MemoryRunStore()).accept(found_trigger(form(**mapping)), PLACE, event, event_id="1")
    assert refused.value.status == 400


async def test_a_duplicate_is_counted_under_its_trigger() -> None:
    desk = reception(MemoryRunStore())

    for _ in range(3):
        await desk.accept(found_trigger(form()), PLACE, {}, event_id="1")

    sample = desk.metrics.registry.get_sample_value("unattended_duplicates_dropped_total", {"trigger": "Sales/lead"})
    assert sample == 2


def test_no_name_means_a_name_of_its_own() -> None:
    assert normalize_event_id(None) != normalize_event_id(None)
    assert normalize_event_id("") != normalize_event_id("")


@without_deadline
@given(st.text(st.characters(), min_size=1, max_size=2 * MAX_EVENT_ID_LENGTH))
def test_a_name_stays_itself_and_within_bounds(text: str) -> None:
    assert normalize_event_id(text) == normalize_event_id(text)
    assert len(normalize_event_id(text)) <= MAX_EVENT_ID_LENGTH
    assert normalize_event_id(text).isascii()
