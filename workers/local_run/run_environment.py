"""The environment of a local run: the services of a worker process, built for one run without a server."""

import asyncio
import functools
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from accounting.prices import PriceTable
from workers.hidden_values import values_of_environment, values_of_models, values_of_packages
from workers.local_run.local_request import WrongUseError
from workers.local_run.preset_variables import no_database
from workers.settings import Settings
from workers.store.run_store import connect
from workers.store.tool_databases import ToolDatabases
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry, scripted_models
from workflows.chat.providers.script import read_script
from workflows.compat.databases import DatabaseNotAllowedError, Databases
from workflows.context.context_loader import ContextSources
from workflows.context.external.external_reader import ExternalReader
from workflows.context.redaction import Redactor
from workflows.models_file import find_models_path, read_models_file
from workflows.operator_file import OperatorFile, find_operator_path, read_operator_file
from workflows.package.catalog import LIBRARY
from workflows.package.normal_form.package_model import Package

TOOL_THREADS = 8
SCRIPT = "script.json"


@dataclass(frozen=True, slots=True)
class LocalEnvironment:
    settings: Settings
    models: ModelRegistry = field(repr=False)
    prices: PriceTable
    redactor: Redactor = field(repr=False)
    threads: ToolThreads = field(repr=False)
    databases: Databases = field(repr=False)
    sources: ContextSources = field(repr=False)
    scripted: bool
    answered: frozenset[str]  # agents with entries in the script


@asynccontextmanager
async def open_environment(
    package: Package, script: Path | Mapping[str, Any] | None, settings: Settings, redactor: Redactor
) -> AsyncIterator[LocalEnvironment]:
    redactor.hide(values_of_environment(settings))
    redactor.hide(values_of_packages([package], settings))
    operator = read_operator_file(find_operator_path(settings.config), own_database=settings.database)
    async with AsyncExitStack() as opened:
        models, prices, answered = _models(script, settings, redactor, opened)
        opened.push_async_callback(models.close)
        external = ExternalReader(allowed_hosts=settings.external_hosts, resolve_secret=settings.resolve_secret)
        opened.push_async_callback(external.close)
        threads = ToolThreads(TOOL_THREADS)
        opened.callback(threads.close)
        yield LocalEnvironment(
            settings=settings,
            models=models,
            prices=prices,
            redactor=redactor,
            threads=threads,
            databases=_databases(operator, settings, opened),
            sources=_sources(settings, external),
            scripted=script is not None,
            answered=answered,
        )


def _models(
    script: Path | Mapping[str, Any] | None, settings: Settings, redactor: Redactor, opened: AsyncExitStack
) -> tuple[ModelRegistry, PriceTable, frozenset[str]]:
    if script is None:
        file = read_models_file(find_models_path(settings.models, library=LIBRARY))
        redactor.hide(values_of_models(file.models, settings))
        return ModelRegistry(file.models, settings.resolve_secret), file.prices, frozenset()
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="unattended-run-")))
    answers, answered = _check_script(script, folder)
    return scripted_models(answers), PriceTable(), answered


def _check_script(script: Path | Mapping[str, Any], folder: Path) -> tuple[Path, frozenset[str]]:
    """Reads the script now, so that its errors are reported before the run begins."""
    file = script if isinstance(script, Path) else _write_script(script, folder)
    try:
        return file, frozenset(read_script(file).answers)
    except PackageDefect as error:
        text = str(error) if isinstance(script, Path) else str(error).replace(str(file), "the script")
        raise WrongUseError(text) from None


def _write_script(script: Mapping[str, Any], folder: Path) -> Path:
    file = folder / SCRIPT
    try:
        file.write_text(json.dumps(script), encoding="utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongUseError(f"the script is not plain data: {error}") from None
    return file


def _databases(operator: OperatorFile, settings: Settings, opened: AsyncExitStack) -> Databases:
    """Connects when a tool first asks for a database.

    Most packages ask for none, so a local run needs no server.
    """

    @functools.cache
    def client() -> AsyncMongoClient[dict[str, Any]]:
        if settings.mongodb_url is None:
            raise DatabaseNotAllowedError("get_mongo_client has no server here: set UNATTENDED_MONGODB_URL")
        found = connect(settings.mongodb_url, database=settings.database).client
        opened.push_async_callback(found.close)
        return found

    allowed, loop = operator.compat.databases, asyncio.get_running_loop()
    return ToolDatabases(allowed, own_database=settings.database, connect=client, loop=loop)


def _sources(settings: Settings, external: ExternalReader) -> ContextSources:
    return ContextSources(
        environment=settings.context_environment(),
        production=settings.production,
        include_schema=settings.include_schema,
        read_document=no_database,
        read_external=external.read,
    )
