"""Package modules: a package's Python files, which only find each other.

The folder that holds the package becomes a Python package with a unique name, `unattended_package_…`. The package and
`_shared` are in it, and every file is a module, so Python itself handles relative imports, circles and threads, and two
versions live side by side.

These modules get their own `__import__`. It turns an absolute import of a neighbour into such a name, so `sys.modules`
gets no plain names and imports inside functions work. It also serves some modules of another runtime from
`workflows.compat`. Imported files are read together with the importing file, so a later import finds the same version.
"""

import builtins
import hashlib
import importlib
import itertools
import os
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.forked_copies import exit_if_forked
from workflows.chat.package_code.incidents import Incident, append_own_line, error_text
from workflows.chat.package_code.module_finder import PACKAGE_MODULE_PREFIX, ModuleFinder
from workflows.chat.package_code.working_directory import WORKING_DIRECTORY
from workflows.compat.databases import NO_DATABASES, Databases
from workflows.compat.served_modules import ServedModules
from workflows.compat.served_names import FOREIGN_WORKFLOWS, ROOTS
from workflows.package.normal_form.package_model import Package
from workflows.package.readers.code.import_resolution import (
    find_module,
    is_in_package,
    is_installed,
    resolve_absolute,
    resolve_relative,
)
from workflows.package.readers.code.parsed_code import OWN_ROOT, read_code

_finder = ModuleFinder()
_load_numbers = itertools.count(1)


class PackageModules:
    """Loads each file of a package once for all its tools, hooks and steps."""

    def __init__(self, package: Package, databases: Databases = NO_DATABASES) -> None:
        """Prepares to load one package.

        `databases` are the MongoDB databases for tools that use the other runtime's interface."""
        self._root = package.folder.resolve()
        self._top_name = f"{_module_prefix(package)}{next(_load_numbers)}"
        self._paths = {self._top_name: self._root.parent}  # of modules, by their names
        self._own_names: dict[tuple[str, str], str | None] = {}  # resolved absolute names, by name and importing file
        self._sources: dict[Path, bytes] = {}
        self._served = ServedModules(databases)
        self._installed: dict[str, bool] = {}  # whether Python has its own module of that name
        # Kept, so that a module that was removed from sys.modules is not executed twice.
        self.executed: dict[str, ModuleType] = {}
        self.incidents: list[Incident] = []  # found while files were loaded
        self.builtins = {**vars(builtins), "__import__": self._import}
        _finder.add(self._top_name, self)

    def load_function(self, file: Path, name: str) -> Callable[..., Any]:
        """Loads a function. PackageDefect when the file fails to load or lacks it."""
        function = getattr(self.load_module(file), name, None)
        if not callable(function):
            raise PackageDefect(f"{file.name} has no function {name}")
        found: Callable[..., Any] = function
        return found

    def load_module(self, file: Path) -> ModuleType:
        resolved = file.resolve()
        if not is_in_package(resolved, self._root):
            raise PackageDefect(f"{file.name} is outside of the package")
        pid, visit = os.getpid(), WORKING_DIRECTORY.enter()
        try:
            return importlib.import_module(self._module_name(resolved))
        except BaseException as error:  # a KeyboardInterrupt raised by a file would end the loop of all runs
            self.forget()
            reason = error_text(error).replace(f"{self._top_name}.", "").replace(self._top_name, "the package")
            words = append_own_line(f"{file.name} failed when it was loaded: {type(error).__name__}: {reason}", error)
            raise PackageDefect(words) from error
        finally:
            exit_if_forked(pid)
            WORKING_DIRECTORY.leave(visit)
            if (incident := visit.incident(where=f"import {file.name}")) is not None:
                self.incidents.append(incident)

    @property
    def is_used(self) -> bool:
        return bool(self.executed)

    def forget(self) -> None:
        """Removes the modules of a loading that is not used."""
        _forget_modules(self._top_name)

    def find(self, name: str) -> Path | None:
        """Returns the module's file or folder. Python has imported its parent by then."""
        if name not in self._paths:
            above, _, last = name.rpartition(".")
            place = find_module(self._paths[above] / last, self._root) if above in self._paths else None
            if place is None:
                return None
            self._paths[name] = place.parent if place.name == "__init__.py" else place
        return self._paths[name]

    def read_source(self, file: Path) -> bytes:
        """Reads a file once, with every file it imports, as of its first import."""
        if file not in self._sources:
            self._sources[file] = file.read_bytes()
            for statement in read_code(file).imports:
                if statement.is_relative:
                    found = resolve_relative(statement.module, file, self._root)
                    needed = None if found is None else found.file
                else:
                    name = self._find_own_name(statement.module, str(file))
                    needed = None if name is None else self._module_file(name)
                if needed is not None:
                    self.read_source(needed)
        return self._sources[file]

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 -- as Python passes it
        locals: Mapping[str, Any] | None = None,  # noqa: A002 -- as Python passes it
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0:
            found = self._find_imported(name, str((globals or {}).get("__file__")), fromlist or ())
            if found is not None:
                return found
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _find_imported(self, name: str, file: str, names: Sequence[str]) -> ModuleType | None:
        """Returns the module to bind, or to take `names` from.

        None for a module that is neither the package's nor served to it."""
        if name in (OWN_ROOT, FOREIGN_WORKFLOWS):
            return self._bind_own_modules(name, file, names)
        own = self._find_own_name(name, file)
        if own is None:
            return self._find_served_module(name, names)
        if names:
            return builtins.__import__(own, fromlist=names)
        importlib.import_module(own)
        first, *rest = name.split(".")
        if name.startswith(f"{FOREIGN_WORKFLOWS}."):
            return _with_attribute(ModuleType(first), rest[0], _bind_workflows(own, rest[1:]))
        return _bind_workflows(own, rest) if first == OWN_ROOT else sys.modules[own.rsplit(".", len(rest))[0]]

    def _bind_own_modules(self, folder: str, file: str, names: Sequence[str]) -> ModuleType | None:
        """Serves `from workflows import _shared, tools`: own modules beside ours."""
        own = {name: module for name in names if (module := self._find_own_name(f"{folder}.{name}", file)) is not None}
        if not own or (folder == FOREIGN_WORKFLOWS and len(own) < len(names)):
            return None
        found = builtins.__import__(OWN_ROOT, fromlist=[name for name in names if name not in own])
        for name, module in own.items():
            found = _with_attribute(found, name, importlib.import_module(module))
        return found

    def _find_served_module(self, name: str, names: Sequence[str]) -> ModuleType | None:
        """Serves a module of the other runtime, unless one of that name is installed."""
        root = name.partition(".")[0]
        if root in ROOTS and root not in self._installed:
            self._installed[root] = is_installed(root, self._root)
        return None if self._installed.get(root, True) else self._served.import_module(name, names)

    def _find_own_name(self, name: str, file: str) -> str | None:
        """Resolves an absolute name to one of the package's files, or None."""
        if (name, file) not in self._own_names:
            found = resolve_absolute(name, Path(file), self._root)
            own = found is not None and not is_installed(name, self._root)
            self._own_names[name, file] = (
                None if found is None or not own else self._name_below(found.place, found.parts)
            )
        return self._own_names[name, file]

    def _name_below(self, place: Path, parts: Sequence[str]) -> str:
        return ".".join((self._module_name(place), *parts))

    def _module_name(self, path: Path) -> str:
        """Names the module of a file or folder."""
        if path.name == "__init__.py":
            path = path.parent
        name, place = self._top_name, self._root.parent
        for part in path.relative_to(place).parts:
            place = place / part
            name = f"{name}.{_to_identifier(part.removesuffix('.py') if place == path else part)}"
            self._paths.setdefault(name, place)
        return name

    def _module_file(self, name: str) -> Path | None:
        """Returns the file of a module that may not be imported yet."""
        place: Path | None = None
        above, *parts = name.removeprefix(self._top_name).split(".")
        for part in parts:
            above = f"{above}.{part}"
            place = self.find(self._top_name + above)
        if place is None or place.is_file():
            return place
        init = place / "__init__.py"
        return init if init.is_file() else None


def forget_package_modules(package: Package) -> None:
    """Removes a version's modules.

    Runs with functions of this version keep them; the next build loads them again."""
    _forget_modules(_module_prefix(package))


def _forget_modules(prefix: str) -> None:
    for name in [name for name in sys.modules.copy() if name.startswith(prefix)]:
        sys.modules.pop(name, None)


def _module_prefix(package: Package) -> str:
    place = hashlib.sha256(str(package.folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{PACKAGE_MODULE_PREFIX}{package.version}_{place}_"


def _to_identifier(part: str) -> str:
    """Makes an identifier of a file name.

    Some file names fit no import statement, and a dot would mean another module."""
    if part.isidentifier():
        return part
    mark = zlib.crc32(part.encode(errors="surrogateescape"))
    return re.sub(r"\W", "_", part) + f"_{mark:08x}"


def _bind_workflows(own: str, parts: Sequence[str]) -> ModuleType:
    """Adds the package's module `own` to our `workflows`, below these parts."""
    return _with_attribute(sys.modules[OWN_ROOT], parts[0], sys.modules[own.rsplit(".", len(parts) - 1)[0]])


def _with_attribute(module: ModuleType, name: str, value: ModuleType) -> ModuleType:
    """Copies a module and adds one attribute.

    `import workflows._shared.x` gives its module a `workflows` with the attribute, and no other module."""
    stand_in = ModuleType(module.__name__)
    vars(stand_in).update({**vars(module), name: value})
    return stand_in
