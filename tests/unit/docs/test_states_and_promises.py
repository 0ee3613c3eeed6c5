"""docs/run-states.md against the table of states, and docs/guarantees.md: no promise without a test."""

import re

from tests.unit.docs.test_docs import ROOT, blocks, read
from workers.store.run_transitions import ALLOWED
from workflows.outcome import OutcomeKind

STATES = ROOT / "docs" / "run-states.md"
PROMISES = ROOT / "docs" / "guarantees.md"


def test_the_diagram_has_exactly_the_moves_that_are_allowed() -> None:
    [diagram] = [each.text for each in blocks(STATES) if each.language == "mermaid"]
    drawn = {(one, other) for one, other in re.findall(r"^ +(\S+) --> (\w+|\[\*\])", diagram, re.MULTILINE)}

    between = {(source.value, target.value) for source, targets in ALLOWED.items() for target in targets}
    ends = {(source.value, "[*]") for source, targets in ALLOWED.items() if not targets}
    assert drawn == between | ends | {("[*]", "queued")}


def test_every_kind_of_outcome_stands_in_the_table() -> None:
    told = set(re.findall(r"^\| `(\w+)`", read(STATES), re.MULTILINE))

    assert {kind.value for kind in OutcomeKind} <= told


def test_every_promise_has_its_tests_and_its_limits() -> None:
    _, *promises = re.split(r"^## ", read(PROMISES), flags=re.MULTILINE)

    assert len(promises) == 8
    for promise in promises:
        assert re.search(r"^- \[tests/", promise, re.MULTILINE), promise[:60]
        assert re.search(r"^Limits?: ", promise, re.MULTILINE), promise[:60]
