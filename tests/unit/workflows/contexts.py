"""Contexts of small packages, for tests: whose run it is, documents in memory, and one call that loads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.workflows.packages import ORCHESTRATOR, load
from workflows.context.documents import DocumentRead
from workflows.context.external.reader import no_external_reads
from workflows.context.facts import RunFacts
from workflows.context.loading import ContextSources, RunContext, load_context
from workflows.context.reads import ReadExternal
from workflows.package.models import Package

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


class Shop:
    """Documents in memory; remembers what it was asked."""

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        self.document = document
        self.asked: list[DocumentRead] = []

    async def read(self, wanted: DocumentRead) -> Mapping[str, Any] | None:
        self.asked.append(wanted)
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
    assert not loaded.refused, loaded.findings
    return loaded


async def context_of(
    package: Package,
    payload: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    production: bool = False,
    include_schema: bool = True,
    shop: Shop | None = None,
    external: ReadExternal = no_external_reads,
) -> RunContext:
    sources = ContextSources(
        environment={} if production else environment or {},
        production=production,
        include_schema=include_schema,
        read_document=(shop or Shop()).read,
        read_external=external,
    )
    return await load_context(package, FACTS, payload or {}, sources)


async def values_of(package: Package, payload: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return dict((await context_of(package, payload, **options)).variables)
