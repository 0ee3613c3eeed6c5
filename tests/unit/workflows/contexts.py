"""Contexts of small packages for tests: facts, documents in memory, one call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.workflows.packages import ORCHESTRATOR, load
from workflows.context.context_loader import ContextSources, RunContext, load_context
from workflows.context.documents.document_access import DocumentRead
from workflows.context.external.external_reader import refuse_external_read
from workflows.context.reads.source_reads import ReadExternal, ReadTimeouts
from workflows.context.run_facts import RunFacts
from workflows.package.normal_form.package_model import Package

FACTS = RunFacts("run_1", "acme", "ada", "chat_1", "Small", {"type": "form_submit", "name": "ask"})
BASE = {
    "app_id": "acme",
    "enterprise_id": "acme",
    "user_id": "ada",
    "chat_id": "chat_1",
    "workflow_name": "Small",
    "run_id": "run_1",
    "trigger": {"type": "form_submit", "name": "ask"},
    "cache_seed": 1605587458,
}
FLAGS = {"context_aware": True, "monetization_enabled": False}
ENV = {"type": "environment", "env_var": "REGION"}
ORDER = {
    "type": "database",
    "database_name": "shop",
    "collection": "orders",
    "query_template": {"_id": "{{order_id}}", "app_id": "{{runtime.app_id}}"},
    "fields": ["status"],
}


class FakeDocuments:
    """Documents in memory; records the queries."""

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        self.document = document
        self.queries: list[DocumentRead] = []

    async def read(self, query: DocumentRead) -> Mapping[str, Any] | None:
        self.queries.append(query)
        return self.document


def package(folder: Path, inputs: Mapping[str, Any] | None = None, **variables: Mapping[str, Any]) -> Package:
    definitions = {
        name: {
            "type": source.get("as", "string"),
            "source": {key: value for key, value in source.items() if key != "as"},
        }
        for name, source in variables.items()
    }
    loaded = load(
        folder,
        orchestrator={**ORCHESTRATOR, "inputs": dict(inputs or {})},
        context_variables={"definitions": definitions},
    )
    assert not loaded.is_refused, loaded.findings
    return loaded


async def context_of(
    package: Package,
    payload: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    production: bool = False,
    include_schema: bool = True,
    shop: FakeDocuments | None = None,
    external: ReadExternal = refuse_external_read,
    timeouts: ReadTimeouts | None = None,
) -> RunContext:
    sources = ContextSources(
        environment={} if production else environment or {},
        production=production,
        include_schema=include_schema,
        read_document=(shop or FakeDocuments()).read,
        read_external=external,
        read_timeouts=timeouts or ReadTimeouts(),
    )
    return await load_context(package, FACTS, payload or {}, sources)


async def values_of(package: Package, payload: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return dict((await context_of(package, payload, **options)).variables)
