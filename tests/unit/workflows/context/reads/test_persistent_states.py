"""Persistent states: the values with which a run begins, and those that it leaves."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.contexts import BASE, FACTS, package
from workflows.context.context_loader import ContextSources, load_context
from workflows.context.reads.persistent_states import StateKey, changed_states, state_keys
from workflows.package.normal_form.package_model import Package

STATE = {"type": "state", "default": "new", "persist": True}
INPUTS = {"stage": {"type": "string", "default": "from the input"}}


class FakeStateStore:
    def __init__(self, **states: Any) -> None:
        self.states = states
        self.queries: list[StateKey] = []

    async def read(self, places: Collection[StateKey]) -> Mapping[str, Any]:
        self.queries.extend(places)
        return {place.variable: self.states[place.variable] for place in places if place.variable in self.states}


async def loaded_context(
    checked: Package, store: FakeStateStore, payload: Mapping[str, Any] | None = None, **facts: Any
) -> Any:
    sources = ContextSources({}, True, True, read_document=_no_document, read_states=store.read)
    return (await load_context(checked, replace(FACTS, **facts), payload or {}, sources)).variables


async def _no_document(_: Any) -> None:
    return None


@pytest.mark.design("D4-45")
@pytest.mark.parametrize(
    ("key", "facts", "place"),
    [
        (None, {}, ("none", "")),
        ("none", {"user_id": None}, ("none", "")),
        ("user_id", {}, ("user_id", "ada")),
        ("chat_id", {}, ("chat_id", "chat_1")),
        ("user_id", {"user_id": None}, None),
    ],
)
async def test_a_run_begins_with_what_is_kept_under_its_key(
    tmp_path: Path, key: str | None, facts: dict[str, Any], place: tuple[str, str] | None
) -> None:
    checked = package(tmp_path, stage={**STATE, "persist_key": key}, other={"type": "state", "default": "1"})
    store = FakeStateStore(stage="paid", other="5")

    context = await loaded_context(checked, store, **facts)

    assert store.queries == ([] if place is None else [StateKey("acme", "Small", "stage", *place)])
    assert (context["stage"], context["other"]) == ("new" if place is None else "paid", "1")


@pytest.mark.parametrize(
    ("declared", "kept", "begins"),
    [
        ({}, {}, "new"),
        ({}, {"stage": None}, None),
        ({"as": "integer", "default": 0}, {"stage": "7"}, 7),
        ({"as": "integer", "default": 0}, {"stage": "many"}, 0),
    ],
)
async def test_a_kept_value_has_to_fit_what_is_declared_now(
    tmp_path: Path, declared: dict[str, Any], kept: dict[str, Any], begins: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    context = await loaded_context(package(tmp_path, stage={**STATE, **declared}), FakeStateStore(**kept))

    assert context["stage"] == begins
    unused = [vars(each)["variable"] for each in caplog.records if each.getMessage() == "kept_state_not_used"]
    assert unused == (["stage"] if kept.get("stage") == "many" else [])


@pytest.mark.parametrize(
    ("payload", "begins"), [({"stage": "supplied"}, "supplied"), ({}, "paid"), ({"stage": None}, "paid")]
)
async def test_what_a_trigger_supplies_wins(tmp_path: Path, payload: dict[str, Any], begins: str) -> None:
    checked = package(tmp_path, INPUTS, stage=STATE)
    assert (await loaded_context(checked, FakeStateStore(stage="paid"), payload))["stage"] == begins


def test_a_run_leaves_what_it_changed_and_nothing_hidden(tmp_path: Path) -> None:
    checked = package(tmp_path, **dict.fromkeys(("one", "two", "three"), STATE), plain={"type": "state"})
    context = {"one": "a", "two": "b", "three": "(hidden) key", "plain": "c"}

    left = changed_states(checked, BASE, {"one", "three", "plain", "gone"}, context)

    assert [(each.state_key, each.value) for each in left] == [(state_keys(checked, BASE)["one"], "a")]
    assert changed_states(checked, BASE, set(), context) == ()
