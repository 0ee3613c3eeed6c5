"""Package builds: each package version is built once for all runs that need it.

Building imports the tools of a package, which may take long or hang. It happens in threads of its own, a few at once,
and waiting runs hold none: a slow package delays only its own runs, and a hanging one does not even delay the exit of
the process.

1. A build that takes long gives its slot to others and goes on beside them.
2. A build that takes too long fails its waiting runs, which would otherwise keep their places in the worker for ever.
3. It cannot be stopped. Until it ends, further runs of this version fail at once and nothing else is started for them.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from contextvars import Context
from types import MappingProxyType
from typing import TypeVar

from workers.process.event_loop import DaemonThreads
from workflows.chat.agents.built_packages import BuiltPackage, PackageCache
from workflows.chat.chat_errors import PackageChanged, PackageDefect, PackageSlow
from workflows.chat.package_code.incidents import error_text
from workflows.package.catalog import Catalog
from workflows.package.environment_requirements import missing_environment_error
from workflows.package.normal_form.package_model import Package

log = logging.getLogger(__name__)

BUILDERS = 8
ATTEMPTS = 3
SLOT_TIMEOUT_S = 5.0
BUILD_TIMEOUT_S = 60.0
MAX_PINNED_VERSIONS = 50

T = TypeVar("T")

Version = tuple[str, str]


class PackageBuilds:
    def __init__(
        self,
        catalog: Catalog,
        agents: PackageCache,
        *,
        on_packages: Callable[[Mapping[str, Package]], None] = lambda _: None,
        environment: Mapping[str, str] = MappingProxyType({}),
        timeout_s: float = BUILD_TIMEOUT_S,
        slot_timeout_s: float = SLOT_TIMEOUT_S,
    ) -> None:
        """`on_packages` gets the packages of the catalog after each change, before a build.

        `environment` has the variables that packages may require. A build holds its slot for `slot_timeout_s`.
        """
        self._catalog = catalog
        self._agents = agents
        self._on_packages = on_packages
        self._environment = environment
        self._timeout_s = timeout_s
        self._slot_timeout_s = slot_timeout_s
        self._known: Mapping[str, Package] = {}
        self._catalog_thread = DaemonThreads(1, "catalog")
        self._build_slots = asyncio.Semaphore(BUILDERS)
        self._builds: dict[Version, asyncio.Task[BuiltPackage]] = {}  # including builds without waiting runs

    async def get(self, workflow: str, *, version: str | None) -> BuiltPackage:
        """Returns the built version, or the one on disk if this process no longer has it.

        Raises PackageSlow if its files take too long to import.
        """
        ready = self._find_ready(workflow, version)
        if ready is not None:
            return ready
        loop = asyncio.get_running_loop()
        for _ in range(ATTEMPTS):
            package = await loop.run_in_executor(self._catalog_thread, self._find_package, workflow, version)
            if package is None:
                raise PackageDefect(await loop.run_in_executor(self._catalog_thread, self._explain_missing, workflow))
            self._check_environment(package)
            try:
                return await asyncio.shield(self._start_build(package))
            except PackageChanged:
                self._catalog.invalidate()
                version = None
        raise PackageDefect(f"the files of {workflow} keep changing while they are read")

    def _check_environment(self, package: Package) -> None:
        """Checks the required environment variables before the import.

        The import may need them too. They cannot change while this process runs, so built packages need no check.
        """
        error = missing_environment_error(package, self._environment)
        if error is not None:
            raise PackageDefect(error)

    def versions(self) -> Mapping[str, str]:
        """Returns the versions that a run claimed now would get, by workflow.

        It only reads the cache, and returns none if that may be outdated.
        """
        packages = self._current_packages()
        if packages is None or len(packages) > MAX_PINNED_VERSIONS:
            return {}
        return {name: package.version for name, package in packages.items()}

    def _find_ready(self, workflow: str, version: str | None) -> BuiltPackage | None:
        """Finds a built package without disk access or a thread.

        That is enough for most runs.
        """
        packages = self._current_packages()
        package = packages and self._catalog.find_version(packages, workflow, version)
        return self._agents.find_built(package) if package else None

    def _current_packages(self) -> Mapping[str, Package] | None:
        packages = self._catalog.cached_packages()
        return packages if packages is self._known else None

    def close(self) -> None:
        self._catalog_thread.shutdown()
        for build in list(self._builds.values()):  # called from another thread
            build.get_loop().call_soon_threadsafe(build.cancel)

    def _find_package(self, workflow: str, version: str | None) -> Package | None:
        packages = self._catalog.packages()
        if packages is not self._known:  # the catalog creates a new mapping for each change
            self._on_packages(packages)
            self._known = packages
        return self._catalog.get(workflow, version=version)

    def _explain_missing(self, workflow: str) -> str:
        places = ", ".join(map(str, self._catalog.directories))
        return self._catalog.explain_refusal(workflow) or f"no package named {workflow} in {places}"

    def _start_build(self, package: Package) -> "asyncio.Task[BuiltPackage]":
        key = (package.name, package.version)
        build = self._builds.get(key)
        if build is None:
            # An empty context: the build does not belong to the run that needs it first.
            build = asyncio.get_running_loop().create_task(
                self._run_build(package), name=f"build {package.name}", context=Context()
            )
            build.add_done_callback(functools.partial(self._on_built, key))
            self._builds[key] = build
        return build

    async def _run_build(self, package: Package) -> BuiltPackage:
        """Builds in a thread.

        Its time limit begins with its slot, not while it waits for one.
        """
        async with self._build_slots:
            importing = _in_own_thread(functools.partial(_build_package, self._agents, package), name=package.name)
            slot_s = min(self._slot_timeout_s, self._timeout_s)
            await asyncio.wait((importing,), timeout=slot_s)
        if not importing.done():
            await asyncio.wait((importing,), timeout=self._timeout_s - slot_s)
        if importing.done():
            return importing.result()
        facts = {"workflow": package.name, "version": package.version}
        log.warning("package_import_hangs", extra={**facts, "within_s": self._timeout_s})
        importing.add_done_callback(functools.partial(self._on_built_late, package))
        raise PackageSlow(
            f"importing the files of {package.name} takes longer than {self._timeout_s:g} s: what connects, waits or "
            "computes at import belongs into the functions that need it, with a timeout",
            retry_after_s=self._timeout_s,
        )

    def _on_built(self, key: Version, build: "asyncio.Task[BuiltPackage]") -> None:
        """Removes a finished build.

        A hanging one is kept, so that it is not started again.
        """
        if build.cancelled() or not isinstance(build.exception(), PackageSlow):
            self._builds.pop(key, None)

    def _on_built_late(self, package: Package, importing: "asyncio.Future[BuiltPackage]") -> None:
        self._builds.pop((package.name, package.version), None)
        error = None if importing.cancelled() else importing.exception()
        facts = {"workflow": package.name, "version": package.version}
        log.warning("package_import_ended_late", extra={**facts, "error": None if error is None else error_text(error)})


def _build_package(agents: PackageCache, package: Package) -> BuiltPackage:
    """Builds in a thread. Errors of the package are raised again in the waiting runs.

    Only an Exception is harmless in the event loop, so others are wrapped.
    """
    try:
        return agents.get_or_build(package)
    except Exception:
        raise
    except BaseException as error:
        raise PackageDefect(f"building {package.name} failed: {type(error).__name__}: {error_text(error)}") from error


def _in_own_thread(function: Callable[[], T], *, name: str) -> "asyncio.Future[T]":
    """Runs a function in a thread of its own.

    So a hanging one takes no thread from others.
    """
    thread = DaemonThreads(1, f"builder of {name}")
    future = asyncio.get_running_loop().run_in_executor(thread, function)
    thread.shutdown()  # the thread ends after this call
    return future
