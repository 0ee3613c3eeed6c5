"""Agents: AG2 agents of one package version, built once and shared by every run of it in this process."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from ag2 import Agent

from workflows.chat.errors import PackageChanged
from workflows.chat.invoking import ToolThreads
from workflows.chat.models import Models
from workflows.chat.package_tools import PackageTool
from workflows.chat.tool_functions import load_tool_functions
from workflows.chat.tool_modules import PackageModules, forget_tool_modules
from workflows.chat.transfers import transfer_tools
from workflows.package.models import Package
from workflows.package.raw.tree import content_version

KEPT_VERSIONS = 64


@dataclass(frozen=True, slots=True)
class BuiltPackage:
    package: Package
    agents: Mapping[str, Agent]
    threads: ToolThreads


def build_package(package: Package, models: Models, threads: ToolThreads) -> BuiltPackage:
    """PackageDefect when a tool cannot be loaded or a model alias is unknown."""
    modules = PackageModules(package)
    functions = load_tool_functions(package, modules)
    if modules.used and content_version(package.folder) != package.version:
        # What was imported is newer than what was read; under this version it would be wrong for ever.
        forget_tool_modules(package)
        raise PackageChanged(f"the files of {package.name} changed while they were read")
    agents = {
        name: Agent(
            name,
            config=models.get(spec.model),
            tools=[
                *(PackageTool(function, threads) for tool, function in functions.items() if name in tool.agents),
                *transfer_tools(package, name),
            ],
        )
        for name, spec in package.agents.items()
    }
    return BuiltPackage(package, agents, threads)


class AgentShop:
    """Builds packages on demand and keeps the versions used last. Many runs ask at once, from threads; a
    version is built once, and one that takes long to import holds up nobody else's."""

    def __init__(self, models: Models, threads: ToolThreads) -> None:
        self._models = models
        self._threads = threads
        self._built: dict[tuple[str, str], BuiltPackage] = {}
        self._lock = threading.Lock()
        self._building: dict[tuple[str, str], threading.Lock] = {}

    def build(self, package: Package) -> BuiltPackage:
        key = (package.name, package.version)
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        with building:
            built = self._built.get(key) or build_package(package, self._models, self._threads)
            self._keep(key, built)
        return built

    def _keep(self, key: tuple[str, str], built: BuiltPackage) -> None:
        with self._lock:
            self._built.pop(key, None)
            self._built[key] = built  # moved to the end: the one used last is dropped last
            self._building.pop(key, None)
            while len(self._built) > KEPT_VERSIONS:
                dropped = self._built.pop(next(iter(self._built)))
                forget_tool_modules(dropped.package)
