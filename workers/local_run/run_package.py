"""Runs a package in this process: for tests of packages, and for `unattended run`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from workers.local_run.local_request import LOCAL_APP, NoteWatch, Request, Watch, WrongUseError
from workers.local_run.local_run import LocalRun
from workers.local_run.package_lookup import chosen_package
from workers.local_run.report import RunReport
from workers.local_run.run_environment import open_environment
from workers.local_run.run_plan import plan_of
from workers.process.event_loop import WorkerLoop
from workers.settings import Settings, load_settings
from workflows.context.redaction import Redactor
from workflows.package.normal_form.package_model import Package


class Options(TypedDict, total=False):
    """Options of a run.

    `script`: a file with answers, or its content; without it the models of the models file answer. `context` presets
    variables; `ui_responses` holds answers of people, by tool and key.
    """

    script: str | Path | Mapping[str, Any] | None
    input: Mapping[str, Any]
    context: Mapping[str, Any]
    ui_responses: Mapping[str, Any]
    message: str | None
    models: str | Path | None
    production: bool
    app: str
    chat_id: str | None


def run_package(workflow: str | Path, **options: Unpack[Options]) -> RunReport:
    """Runs a package once, from beginning to end. `workflow` is a folder or a name.

    Raises NotStartedError if the package cannot be run, WrongUseError if arguments are invalid. In a running event
    loop, await `run_package_async` instead.
    """
    with asyncio.Runner(loop_factory=WorkerLoop) as runner:
        return runner.run(run_package_async(workflow, **options))


async def run_package_async(workflow: str | Path, **options: Unpack[Options]) -> RunReport:
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:  # a misspelt `script` would call real models
        known = ", ".join(Options.__annotations__)
        raise WrongUseError(f"{', '.join(sorted(unknown))}: no such argument; there are {known}")
    models, script = options.get("models"), options.get("script")
    settings = with_flags(
        load_settings(models=None if models is None else Path(models)), production=options.get("production", False)
    )
    request = Request(
        input=options.get("input", {}),
        context=options.get("context", {}),
        ui_responses=options.get("ui_responses", {}),
        script=Path(script) if isinstance(script, str) else script,
        message=options.get("message"),
        app_id=options.get("app", LOCAL_APP),
        chat_id=options.get("chat_id"),
    )
    package = chosen_package(workflow, settings)
    async with open_local_run(package, request, settings) as run:
        await run.work()
        return run.report()


def with_flags(settings: Settings, *, production: bool) -> Settings:
    return replace(settings, environment="production") if production else settings


@asynccontextmanager
async def open_local_run(
    package: Package,
    request: Request,
    settings: Settings,
    *,
    watch: Watch | None = None,
    redactor: Redactor | None = None,
) -> AsyncIterator[LocalRun]:
    async with open_environment(package, request.script, settings, redactor or Redactor()) as environment:
        run = LocalRun(plan_of(package, request, environment), watch or NoteWatch())
        await run.open()
        yield run
