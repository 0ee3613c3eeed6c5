"""The plan of a run: the package, what was asked for, and whose run it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ops.one_run.presets import with_presets
from ops.one_run.request import Request, WrongUseError
from ops.one_run.surroundings import Surroundings
from workers.run import new_run_id
from workers.storable import NotStorableError, check_storable
from workflows.context.facts import RunFacts
from workflows.context.writes import key_facts
from workflows.package.models import Package


@dataclass(frozen=True, slots=True)
class Plan:
    """`as_loaded` is the package as its context is loaded here: with presets, and without a database."""

    package: Package
    as_loaded: Package
    request: Request
    facts: RunFacts
    key_facts: Mapping[str, Any]
    around: Surroundings
    notes: tuple[str, ...]


def plan_of(package: Package, request: Request, around: Surroundings) -> Plan:
    try:
        check_storable(request.input)
    except NotStorableError as error:
        raise WrongUseError(str(error)) from None
    as_loaded, notes = with_presets(package, request.context, around.settings)
    run_id = new_run_id()
    facts = RunFacts(
        run_id=run_id,
        app_id=request.app_id,
        user_id=None,
        chat_id=run_id,
        workflow=package.name,
        trigger={"type": "manual", "name": "run"},
    )
    keys = key_facts(package, request.input, facts.base_values())
    return Plan(package, as_loaded, request, facts, keys, around, tuple(notes))
