"""Package builds: the agents of a package version, built once however many runs ask for it at the same time.

Building imports a package's tools, which may take long or hang. It happens in a few threads of its own, and
runs that wait for it hold none: a slow package delays its own runs and nobody else's, and one that hangs not even
the end of the process.
"""

import asyncio
from collections.abc import Callable, Mapping

from workers.process.event_loop import DaemonThreads
from workflows.chat.agents import AgentShop, BuiltPackage
from workflows.chat.errors import PackageChanged, PackageDefect
from workflows.package.catalog import Catalog
from workflows.package.models import Package

BUILDERS = 8
ATTEMPTS = 3


class PackageBuilds:
    def __init__(
        self,
        catalog: Catalog,
        agents: AgentShop,
        *,
        on_packages: Callable[[Mapping[str, Package]], None] = lambda _: None,
    ) -> None:
        """`on_packages` is told what the catalog holds, anew when that changed, before any of it is built."""
        self._catalog = catalog
        self._agents = agents
        self._on_packages = on_packages
        self._known: Mapping[str, Package] = {}
        self._threads = DaemonThreads(BUILDERS, "builders")
        self._looking = DaemonThreads(1, "catalog")
        self._under_way: dict[tuple[str, str], asyncio.Future[BuiltPackage]] = {}

    async def get(self, workflow: str, *, version: str | None) -> BuiltPackage:
        """This version while this process can still give it, else the one on disk."""
        loop = asyncio.get_running_loop()
        for _ in range(ATTEMPTS):
            package = await loop.run_in_executor(self._looking, self._look, workflow, version)
            if package is None:
                raise PackageDefect(await loop.run_in_executor(self._looking, self._why_none, workflow))
            try:
                return await asyncio.shield(self._build(package))
            except PackageChanged:
                self._catalog.look_again()
                version = None
        raise PackageDefect(f"the files of {workflow} keep changing while they are read")

    def close(self) -> None:
        self._threads.shutdown()
        self._looking.shutdown()

    def _look(self, workflow: str, version: str | None) -> Package | None:
        packages = self._catalog.packages()
        if packages is not self._known:  # the catalog makes a new mapping of every change
            self._on_packages(packages)
            self._known = packages
        return self._catalog.get(workflow, version=version)

    def _why_none(self, workflow: str) -> str:
        places = ", ".join(map(str, self._catalog.directories))
        return self._catalog.why_not_started(workflow) or f"no package named {workflow} in {places}"

    def _build(self, package: Package) -> "asyncio.Future[BuiltPackage]":
        key = (package.name, package.version)
        under_way = self._under_way.get(key)
        if under_way is None:
            under_way = asyncio.get_running_loop().run_in_executor(self._threads, self._agents.build, package)
            under_way.add_done_callback(lambda _: self._under_way.pop(key, None))
            self._under_way[key] = under_way
        return under_way
