"""The priority of a trigger: a digit, for every type of trigger."""

from typing import Any

import pytest
from jsonschema import Draft7Validator

from workflows.package.findings import Finding, Findings
from workflows.package.readers.triggers_reader import read_triggers
from workflows.package.schemas.package_schemas import build_schema
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

ENTRIES: dict[str, dict[str, Any]] = {
    "schedule": {"type": "schedule", "apps": ["acme"], "every": "1h"},
    "database_condition": {"type": "db", "apps": ["acme"], "database": "shop", "collection": "orders"},
    "webhook": {"type": "webhook", "apps": ["acme"], "verify": {"scheme": "github", "secret": "env:S"}},
    "form_submit": {"type": "form", "apps": ["acme"], "inputs": {"email": {"format": "email"}}},
}


def read(entry: dict[str, Any]) -> tuple[list[TriggerSpec], tuple[Finding, ...]]:
    findings = Findings()
    return list(read_triggers([entry], file="triggers.yaml", findings=findings).values()), findings.all


def fits_the_schema(entry: dict[str, Any]) -> bool:
    return bool(Draft7Validator(build_schema("triggers")).is_valid([entry]))


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_type_has_one_and_five_is_usual(entry: dict[str, Any]) -> None:
    for written, expected in (({}, 5), ({"priority": None}, 5), ({"priority": 0}, 0), ({"priority": 9}, 9)):
        specs, findings = read({**entry, **written})

        assert findings == ()
        assert [spec.priority for spec in specs] == [expected]
    assert fits_the_schema({**entry, "priority": 9})


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize(
    "priority", [-1, 10, 10**30, 7.5, float("nan"), "7", "high", "=fullDocument.urgency", True, [5], {}]
)
def test_what_is_no_digit_is_refused_at_its_place(entry: dict[str, Any], priority: object) -> None:
    specs, findings = read({**entry, "priority": priority})

    assert specs == []
    assert [(finding.code, finding.path, finding.message) for finding in findings] == [
        ("bad_trigger", "triggers[0].priority", "must be a whole number from 0 to 9; 9 is most urgent")
    ]
    assert not fits_the_schema({**entry, "priority": priority})


def test_a_typo_gets_a_suggestion() -> None:
    _, [finding] = read({**ENTRIES["schedule"], "priorty": 9})

    assert finding.message == "is not a field of this trigger; did you mean priority?"
