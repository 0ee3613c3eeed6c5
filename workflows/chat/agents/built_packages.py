"""Built packages: AG2 agents of one version, shared by its runs in this process."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from ag2 import Agent

from workflows.chat.agents.output_models import ReplyModel, build_output_models
from workflows.chat.chat_errors import ChatError, PackageChanged
from workflows.chat.hooks.package_steps import PackageStep, load_hooks, load_lifecycle
from workflows.chat.package_code.incidents import Incident
from workflows.chat.package_code.package_modules import PackageModules, forget_package_modules
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.chat.routing.speaker_manager import SpeakerManager, build_manager
from workflows.chat.routing.transfers import build_transfer_tools
from workflows.chat.tools.auto_tools import load_auto_tools
from workflows.chat.tools.tool_calls import PackageTool
from workflows.chat.tools.tool_functions import ToolFunction, load_tool_functions
from workflows.compat.databases import NO_DATABASES, Databases
from workflows.context.reads.source_reads import refreshed_variables
from workflows.package.files.package_tree import compute_content_version
from workflows.package.normal_form.automatic_tools import is_offered
from workflows.package.normal_form.package_model import Moment, Package, Variable

MAX_KEPT_VERSIONS = 64


@dataclass(frozen=True, slots=True)
class BuiltPackage:
    package: Package
    agents: Mapping[str, Agent]
    threads: ToolThreads
    manager: SpeakerManager | None = None
    lifecycle: Mapping[Moment, tuple[PackageStep, ...]] = field(default_factory=dict)
    hooks: Mapping[str, tuple[PackageStep, ...]] = field(default_factory=dict)  # by agent
    output_models: Mapping[str, ReplyModel] = field(default_factory=dict)  # by agent
    auto_tools: Mapping[str, tuple[ToolFunction, ...]] = field(default_factory=dict)  # by agent
    refreshed_variables: Mapping[str, tuple[Variable, ...]] = field(default_factory=dict)  # by agent that sees them
    import_incidents: tuple[Incident, ...] = ()  # of importing its files: each run records them


def build_package(
    package: Package, models: ModelRegistry, threads: ToolThreads, databases: Databases = NO_DATABASES
) -> BuiltPackage:
    """Builds agents, tools, hooks and models.

    PackageDefect when a tool cannot be loaded or a model alias is unknown."""
    modules = PackageModules(package, databases)
    try:
        return _build(package, modules, models, threads)
    except ChatError:
        modules.forget()
        raise


def _build(package: Package, modules: PackageModules, models: ModelRegistry, threads: ToolThreads) -> BuiltPackage:
    functions = load_tool_functions(package, modules)
    lifecycle, hooks = load_lifecycle(package, modules), load_hooks(package, modules)
    auto_tools = load_auto_tools(package, modules, functions)
    if modules.is_used and compute_content_version(package.folder) != package.version:
        # What was imported is newer than what was read; under this version it would stay wrong.
        raise PackageChanged(f"the files of {package.name} changed while they were read")
    outputs = build_output_models(package, models)
    agents = {
        name: Agent(
            name,
            config=models.get(spec.model),
            tools=[
                *(PackageTool(functions[tool]) for tool in functions if is_offered(package, name, tool)),
                *build_transfer_tools(package, name),
            ],
            response_schema=outputs[name].schema if name in outputs else None,
        )
        for name, spec in package.agents.items()
    }
    manager = build_manager(package, models)
    return BuiltPackage(
        package,
        agents,
        threads,
        manager,
        lifecycle,
        hooks,
        outputs,
        auto_tools,
        refreshed_variables(package),
        tuple(modules.incidents),
    )


class PackageCache:
    """Builds versions on demand and keeps those used last.

    Threads of many runs ask at once. Each version is built once, and a slow import blocks no other version."""

    def __init__(
        self,
        models: ModelRegistry,
        threads: ToolThreads,
        databases: Databases = NO_DATABASES,
        *,
        max_versions: int = MAX_KEPT_VERSIONS,
    ) -> None:
        self._models = models
        self._threads = threads
        self._databases = databases
        self._max_versions = max_versions
        self._built: dict[tuple[str, str], BuiltPackage] = {}
        self._lock = threading.Lock()
        self._build_locks: dict[tuple[str, str], threading.Lock] = {}

    def find_built(self, package: Package) -> BuiltPackage | None:
        """Returns a built version without waiting for a build in progress."""
        key = (package.name, package.version)
        with self._lock:
            built = self._built.pop(key, None)
            if built is not None:
                self._built[key] = built  # moved to the end, as in `_store`
        return built

    def get_or_build(self, package: Package) -> BuiltPackage:
        key = (package.name, package.version)
        with self._lock:
            building = self._build_locks.setdefault(key, threading.Lock())
        with building:
            with self._lock:  # `find_built` removes one for a moment
                built = self._built.get(key)
            built = built or build_package(package, self._models, self._threads, self._databases)
            self._store(key, built)
        return built

    def _store(self, key: tuple[str, str], built: BuiltPackage) -> None:
        with self._lock:
            self._built.pop(key, None)
            self._built[key] = built  # moved to the end: the one used last is dropped last
            self._build_locks.pop(key, None)
            while len(self._built) > self._max_versions:
                dropped = self._built.pop(next(iter(self._built)))
                forget_package_modules(dropped.package)
