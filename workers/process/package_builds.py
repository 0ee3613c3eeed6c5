"""Package builds: the agents of a package version, built once however many runs ask for it at the same time.

Building imports a package's tools, which may take long or hang. It happens in threads of its own, a few at once, and
runs that wait for it hold none: a slow package delays its own runs and nobody else's, and one that hangs not even the
end of the process.

1. A build that takes long gives its place up to others, and goes on beside them.
2. One that takes too long fails the runs that wait for it: they would keep their places in the worker for ever.
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
PLACE_FOR_S = 5.0
BUILD_WITHIN_S = 60.0
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
        within_s: float = BUILD_WITHIN_S,
    ) -> None:
        """`on_packages` is told what the catalog holds, anew when that changed, before any of it is built.
        `environment` is where the variables are looked for that a package requires."""
        self._catalog = catalog
        self._agents = agents
        self._on_packages = on_packages
        self._environment = environment
        self._within_s = within_s
        self._known: Mapping[str, Package] = {}
        self._catalog_thread = DaemonThreads(1, "catalog")
        self._build_slots = asyncio.Semaphore(BUILDERS)
        self._builds: dict[Version, asyncio.Task[BuiltPackage]] = {}  # also what runs no longer wait for

    async def get(self, workflow: str, *, version: str | None) -> BuiltPackage:
        """This version while this process can still give it, else the one on disk. PackageSlow when its files take
        too long to import."""
        at_hand = self._find_ready(workflow, version)
        if at_hand is not None:
            return at_hand
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
        """Before its files are imported: they may need the variable as well. It cannot change while this process
        lives, so what is at hand has been checked."""
        error = missing_environment_error(package, self._environment)
        if error is not None:
            raise PackageDefect(error)

    def versions(self) -> Mapping[str, str]:
        """What a run that is claimed now would be given, by workflow, as far as that is known without a look."""
        packages = self._current_packages()
        if packages is None or len(packages) > MAX_PINNED_VERSIONS:
            return {}
        return {name: package.version for name, package in packages.items()}

    def _find_ready(self, workflow: str, version: str | None) -> BuiltPackage | None:
        """Most runs need neither a disk nor a thread."""
        packages = self._current_packages()
        package = packages and self._catalog.find_version(packages, workflow, version)
        return self._agents.find_built(package) if package else None

    def _current_packages(self) -> Mapping[str, Package] | None:
        packages = self._catalog.cached_packages()
        return packages if packages is self._known else None

    def close(self) -> None:
        self._catalog_thread.shutdown()
        for build in list(self._builds.values()):  # from another thread
            build.get_loop().call_soon_threadsafe(build.cancel)

    def _find_package(self, workflow: str, version: str | None) -> Package | None:
        packages = self._catalog.packages()
        if packages is not self._known:  # the catalog makes a new mapping of every change
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
            # In a context of its own: it is no work of the run that happens to need it first.
            build = asyncio.get_running_loop().create_task(
                self._run_build(package), name=f"build {package.name}", context=Context()
            )
            build.add_done_callback(functools.partial(self._on_built, key))
            self._builds[key] = build
        return build

    async def _run_build(self, package: Package) -> BuiltPackage:
        """Its time begins when it has a place: those before it do not use it up."""
        async with self._build_slots:
            importing = _in_own_thread(functools.partial(_build_package, self._agents, package), name=package.name)
            place_for_s = min(PLACE_FOR_S, self._within_s)
            await asyncio.wait((importing,), timeout=place_for_s)
        if not importing.done():
            await asyncio.wait((importing,), timeout=self._within_s - place_for_s)
        if importing.done():
            return importing.result()
        said = {"workflow": package.name, "version": package.version}
        log.warning("package_import_hangs", extra={**said, "within_s": self._within_s})
        importing.add_done_callback(functools.partial(self._on_built_late, package))
        raise PackageSlow(
            f"importing the files of {package.name} takes longer than {self._within_s:g} s: what connects, waits or "
            "computes when a file is imported belongs into the functions that need it, with a timeout",
            retry_after_s=self._within_s,
        )

    def _on_built(self, key: Version, build: "asyncio.Task[BuiltPackage]") -> None:
        """Also where nobody waits any more. What hangs is kept, so that nobody begins it again."""
        if build.cancelled() or not isinstance(build.exception(), PackageSlow):
            self._builds.pop(key, None)

    def _on_built_late(self, package: Package, importing: "asyncio.Future[BuiltPackage]") -> None:
        self._builds.pop((package.name, package.version), None)
        error = None if importing.cancelled() else importing.exception()
        said = {"workflow": package.name, "version": package.version}
        log.warning("package_import_ended_late", extra={**said, "error": None if error is None else error_text(error)})


def _build_package(agents: PackageCache, package: Package) -> BuiltPackage:
    """In a thread. Whatever the package's code raises there is raised again in the runs that wait for it, and only
    an Exception does no harm in the event loop."""
    try:
        return agents.get_or_build(package)
    except Exception:
        raise
    except BaseException as error:
        raise PackageDefect(f"building {package.name} failed: {type(error).__name__}: {error_text(error)}") from error


def _in_own_thread(function: Callable[[], T], *, name: str) -> "asyncio.Future[T]":
    """One that hangs takes no thread from others."""
    thread = DaemonThreads(1, f"builder of {name}")
    called = asyncio.get_running_loop().run_in_executor(thread, function)
    thread.shutdown()  # ends with this call
    return called
