"""Loads a run's context: facts, inputs, environment, defaults, reads, computed.

In production, environment variables are suppressed at load and purged again before the chat. A condition that names one
is false as a whole (`routing_conditions`), so loading reports their names instead of inventing values. Missing values
are reported together, and a run without a required value ends before any model call.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workflows.context.context_variables import ContextVariables
from workflows.context.documents.document_access import CheckWritable, ReadDocument
from workflows.context.documents.write_checks import allow_every_write, check_writes
from workflows.context.external.external_reader import refuse_external_read
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.reads.missing_values import ContextError, raise_for_missing
from workflows.context.reads.persistent_states import ReadStates, load_states, read_no_states
from workflows.context.reads.source_reads import ContextReaders, ReadExternal, ReadTimeouts, read_values
from workflows.context.reads.supplied_values import BASE_FLAGS, base_flags, query_facts, read_inputs, supplied_values
from workflows.context.run_facts import FIXED_NAMES, RunFacts
from workflows.context.values.size_limits import TooLargeError, check_context_size
from workflows.package.normal_form.package_model import Package, Variable

log = logging.getLogger(__name__)

SCHEMA_KINDS = frozenset({"db", "entity"})


@dataclass(frozen=True, slots=True)
class ContextSources:
    """The sources of values. `environment` is empty in production."""

    environment: Mapping[str, str] = field(repr=False)
    production: bool
    include_schema: bool
    read_document: ReadDocument = field(repr=False)
    read_external: ReadExternal = field(default=refuse_external_read, repr=False)
    check_writable: CheckWritable = field(default=allow_every_write, repr=False)
    read_states: ReadStates = field(default=read_no_states, repr=False)
    read_timeouts: ReadTimeouts = field(default_factory=ReadTimeouts)


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
    loaded = _loaded_variables(package, suppressed, include_schema=sources.include_schema)
    base = facts.base_values()
    flags = {} if sources.production else base_flags(sources.environment)
    inputs, missing_inputs = read_inputs(package, payload)
    supplied, missing_supplied = supplied_values(loaded, payload, inputs, sources.environment)
    facts_for_queries = query_facts(package, payload, inputs, base)
    readers = ContextReaders(
        facts.app_id, facts_for_queries, sources.read_document, sources.read_external, sources.read_timeouts
    )
    read, missing_reads = await read_values(loaded, readers)
    raise_for_missing([*missing_inputs, *missing_supplied, *missing_reads], run_id=facts.run_id)
    await check_writes(loaded, facts_for_queries, sources.check_writable)
    supplied_names = [name for name in inputs if payload.get(name) is not None]
    states = await load_states(package, facts, supplied_names, sources.read_states)
    # The run's own facts come last, so no payload or package can replace them.
    context = purge_suppressed(
        {**flags, **inputs, **supplied, **states, **read, **base}, suppressed, run_id=facts.run_id
    )
    recompute_variables(package, context, suppressed)
    try:
        check_context_size(context)
    except TooLargeError as error:
        raise ContextError(str(error)) from None
    return RunContext(context, suppressed)


def _loaded_variables(package: Package, suppressed: frozenset[str], *, include_schema: bool) -> list[Variable]:
    excluded = suppressed | FIXED_NAMES
    return [
        variable
        for name, variable in package.variables.items()
        if name not in excluded and (include_schema or variable.kind not in SCHEMA_KINDS)
    ]


def suppressed_names(package: Package, *, production: bool) -> frozenset[str]:
    if not production:
        return frozenset()
    return frozenset(BASE_FLAGS) | {variable.name for variable in package.variables.values() if variable.kind == "env"}


def purge_suppressed(values: Mapping[str, Any], suppressed: frozenset[str], *, run_id: str) -> ContextVariables:
    """Removes suppressed names before the chat: the second gate of production."""
    leaked = sorted(suppressed & set(values))
    if leaked:
        log.warning("environment_variables_purged", extra={"run_id": run_id, "names": leaked})
    return ContextVariables({name: value for name, value in values.items() if name not in suppressed})
