"""Whether the end of a run is one that a trigger waits for, and whether it may start one more."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triggers.change_stream.watched_triggers import ChainTrigger
from triggers.register.trigger import Trigger
from triggers.run_finished.ended_runs_intake import (
    MAX_CHAIN_LENGTH,
    build_chained_request,
    chain_stop_reason,
    ended_run_event_id,
    is_awaited_end,
)
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def chain(*, app_id: str | None = None, since: datetime | None = None, **changes: Any) -> ChainTrigger:
    spec = RunFinishedSpec.model_validate({"name": "after", "workflow": "Digest", **changes})
    return ChainTrigger(Trigger("Orders", spec, app_id=app_id), spec, since)


def run(kind: str = "completed", **changes: Any) -> dict[str, Any]:
    return {"_id": "run_1", "app_id": "acme", "workflow": "Digest", "outcome": {"kind": kind}, **changes}


@pytest.mark.parametrize(
    ("outcome", "state", "kind", "waits"),
    [
        ("succeeded", "succeeded", "completed", True),
        ("succeeded", "failed", "tool_error", False),
        (["failed", "parked"], "parked", "model_error", True),
        ("tool_error", "failed", "tool_error", True),
        ("any", "cancelled", "cancelled", True),
        ("max_turns", "succeeded", "completed", False),
    ],
)
def test_an_outcome_is_a_state_a_kind_or_any(outcome: Any, state: str, kind: str, waits: bool) -> None:
    assert is_awaited_end(chain(outcome=outcome), run(kind), state, ended_at=NOW) is waits


@pytest.mark.parametrize(("outcome", "waits"), [("any", False), ("model_error", False), ("cancelled", True)])
def test_a_parked_run_that_is_resolved_ends_again_only_by_its_state(outcome: str, waits: bool) -> None:
    resolved = run("model_error", resolved={"how": "replayed"})

    assert is_awaited_end(chain(outcome=outcome), resolved, "cancelled", ended_at=NOW) is waits


def test_only_later_runs_of_the_named_workflow_in_a_served_app_count() -> None:
    def waits(one: ChainTrigger, **changes: Any) -> bool:
        return is_awaited_end(one, run(**changes), "succeeded", ended_at=NOW)

    assert waits(chain())
    assert not waits(chain(), workflow="Other")
    assert waits(chain(apps=("acme",)))
    assert not waits(chain(apps=("globex",)))
    assert not waits(chain(app_id="globex"))
    assert waits(chain(since=NOW))
    assert not waits(chain(since=NOW + timedelta(seconds=1)))


def test_the_parent_is_carried_on_and_the_chain_grows_by_this_trigger() -> None:
    request = build_chained_request(
        chain(input={"of": "=run_id"}),
        run(correlation_id="c", chain=["A/b"]),
        {"run_id": "run_1"},
        state="succeeded",
        now=NOW,
    )

    assert (request.app_id, request.workflow) == ("acme", "Orders")
    assert (request.parent_run_id, request.correlation_id) == ("run_1", "c")
    assert request.chain == ("A/b", "Orders/after")
    assert request.input == {"of": "run_1"}
    assert request.dedupe_key == "Orders/after/run_finished/acme/run_1:succeeded"


def test_a_run_that_parks_and_is_cancelled_has_ended_twice() -> None:
    assert ended_run_event_id(run(), "parked") != ended_run_event_id(run(), "cancelled")


def test_a_chain_stops_where_it_comes_round_or_grows_too_long() -> None:
    others = [f"W{number}/t" for number in range(MAX_CHAIN_LENGTH)]

    assert chain_stop_reason(chain(), run()) is None
    assert chain_stop_reason(chain(), run(chain=others[:-1])) is None
    assert chain_stop_reason(chain(), run(chain=others)) == "too_deep"
    assert chain_stop_reason(chain(), run(chain=["A/b", "Orders/after"])) == "cycle"
