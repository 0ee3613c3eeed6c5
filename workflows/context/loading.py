"""Loads the context of a run: facts, inputs, environment, defaults, then what is read, then what is computed.

Production: environment variables are suppressed at load and purged again before the chat. A condition that
names one is false as a whole (`conditions`), so loading reports their names instead of inventing values.
All that is missing is said together, and a run without a required value ends before any model call.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workflows.context.bounds import TooLargeError, check_context_size
from workflows.context.computing import recompute
from workflows.context.context_variables import ContextVariables
from workflows.context.documents import CheckWritable, ReadDocument
from workflows.context.external.reader import no_external_reads
from workflows.context.facts import FIXED_NAMES, RunFacts
from workflows.context.kept_states import ReadStates, load_states, no_states
from workflows.context.missing import ContextError, settle
from workflows.context.plain_values import BASE_FLAGS, base_flags, plain_values, query_facts, read_inputs
from workflows.context.reads import Readers, ReadExternal, read_values
from workflows.context.write_checks import anywhere, check_writes
from workflows.package.models import Package, Variable

log = logging.getLogger(__name__)

SCHEMA_KINDS = frozenset({"db", "entity"})


@dataclass(frozen=True, slots=True)
class ContextSources:
    """Where values come from. `environment` is empty in production."""

    environment: Mapping[str, str] = field(repr=False)
    production: bool
    include_schema: bool
    read_document: ReadDocument = field(repr=False)
    read_external: ReadExternal = field(default=no_external_reads, repr=False)
    check_writable: CheckWritable = field(default=anywhere, repr=False)
    read_states: ReadStates = field(default=no_states, repr=False)


@dataclass(frozen=True, slots=True)
class RunContext:
    variables: ContextVariables
    suppressed: frozenset[str]


async def load_context(
    package: Package, facts: RunFacts, payload: Mapping[str, Any], sources: ContextSources
) -> RunContext:
    suppressed = suppressed_names(package, production=sources.production)
    if suppressed:
        log.info("environment_variables_suppressed", extra={"run_id": facts.run_id, "names": sorted(suppressed)})
    wanted = _wanted(package, suppressed, include_schema=sources.include_schema)
    base = facts.base_values()
    flags = {} if sources.production else base_flags(sources.environment)
    inputs, missing_inputs = read_inputs(package, payload)
    plain, missing_plain = plain_values(wanted, payload, inputs, sources.environment)
    supplied = query_facts(package, payload, inputs, base)
    readers = Readers(facts.app_id, supplied, sources.read_document, sources.read_external)
    read, missing_reads = await read_values(wanted, readers)
    settle([*missing_inputs, *missing_plain, *missing_reads], run_id=facts.run_id)
    await check_writes(wanted, supplied, sources.check_writable)
    given = [name for name in inputs if payload.get(name) is not None]
    kept = await load_states(package, facts, given, sources.read_states)
    # Last: whose run this is comes from the run, whatever a payload or a package calls by the same name.
    context = purged({**flags, **inputs, **plain, **kept, **read, **base}, suppressed, run_id=facts.run_id)
    recompute(package, context, suppressed)
    try:
        check_context_size(context)
    except TooLargeError as error:
        raise ContextError(str(error)) from None
    return RunContext(context, suppressed)


def _wanted(package: Package, suppressed: frozenset[str], *, include_schema: bool) -> list[Variable]:
    left_out = suppressed | FIXED_NAMES
    return [
        variable
        for name, variable in package.variables.items()
        if name not in left_out and (include_schema or variable.kind not in SCHEMA_KINDS)
    ]


def suppressed_names(package: Package, *, production: bool) -> frozenset[str]:
    if not production:
        return frozenset()
    return frozenset(BASE_FLAGS) | {each.name for each in package.variables.values() if each.kind == "env"}


def purged(values: Mapping[str, Any], suppressed: frozenset[str], *, run_id: str) -> ContextVariables:
    """The second gate of production: whatever put an environment variable here, it does not reach the chat."""
    leaked = sorted(suppressed & set(values))
    if leaked:
        log.warning("environment_variables_purged", extra={"run_id": run_id, "names": leaked})
    return ContextVariables({name: value for name, value in values.items() if name not in suppressed})
