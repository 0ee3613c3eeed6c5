"""The plan of a local run: the package and the request."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from workers.local_run.local_request import Request, WrongUseError
from workers.local_run.preset_variables import with_presets
from workers.local_run.run_environment import LocalEnvironment
from workers.store.run import RunRequest, TriggerEvent
from workers.store.storable import NotStorableError, check_storable
from workflows.package.checks.trigger_checks import accepted_inputs, find_asking_names
from workflows.package.normal_form.package_model import MANAGER, Package

ALIKE = 0.75


@dataclass(frozen=True, slots=True)
class Plan:
    """`as_loaded` is the package with presets and without a database."""

    package: Package
    as_loaded: Package
    run_request: RunRequest
    environment: LocalEnvironment
    notes: tuple[str, ...]


def plan_of(package: Package, request: Request, environment: LocalEnvironment) -> Plan:
    try:
        check_storable(request.input)
    except NotStorableError as error:
        raise WrongUseError(str(error)) from None
    as_loaded, notes = with_presets(package, request.context, environment.settings)
    run_request = RunRequest(
        app_id=request.app_id,
        workflow=package.name,
        trigger=TriggerEvent("manual", "run", id="1", fired_at=datetime.now(UTC)),
        input=request.input,
        message=request.message,
        chat_id=request.chat_id,
        ui_responses=request.ui_responses,
    )
    return Plan(
        package, as_loaded, run_request, environment, (*notes, *_find_unknown_names(package, request, environment))
    )


def _find_unknown_names(package: Package, request: Request, environment: LocalEnvironment) -> Iterator[str]:
    """Yields a note for each given name that the package does not have, such as a typo."""
    speakers = package.agents.keys() | {MANAGER}
    options: list[tuple[str, AbstractSet[str], AbstractSet[str], str]] = [
        ("input", request.input.keys(), accepted_inputs(package), "reaches nothing: the package takes"),
        ("ui_responses", request.ui_responses.keys(), find_asking_names(package), "answers nothing: there are"),
        ("script", _find_misspelt_agents(environment.answered, speakers), speakers, "is no agent: there are"),
    ]
    for option, names, known, why in options:
        for name in sorted(names - known):
            yield f"{option}: {name} {why} {', '.join(sorted(known)) or 'none'}"


def _find_misspelt_agents(answered: AbstractSet[str], speakers: AbstractSet[str]) -> AbstractSet[str]:
    """Returns the names in the script that are probably misspelt.

    A script may serve several packages. An unknown name counts as misspelt if no agent of this package has answers, or
    if the name resembles an agent without answers.
    """
    strange, silent = answered - speakers, sorted(speakers - answered)
    if strange == answered:
        return strange
    return {name for name in strange if get_close_matches(name, silent, n=1, cutoff=ALIKE)}
