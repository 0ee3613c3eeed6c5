"""Tool modules: a package's Python files, loaded so that they find each other and nobody else finds them.

The folder that holds the package becomes a Python package of a name that is used once, `unattended_package_…`, with
the package and `_shared` in it and every file as a module: relative imports, circles and threads are Python's own
business, and two versions live side by side. An absolute import of a neighbour is turned into such a name by an
`__import__` that only these modules see, so that `sys.modules` gets no plain names and imports inside of functions
work. It also serves some modules of another runtime, by ours in `workflows.compat`. Whatever a file imports is read
when the file is, so that a later import finds the same version.
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
    """Loads each file of a package once, however many tools, hooks and steps are in it."""

    def __init__(self, package: Package, databases: Databases = NO_DATABASES) -> None:
        """`databases`: what the package's tools get of MongoDB, where they ask as in the other runtime."""
        self._root = package.folder.resolve()
        self._top_name = f"{_module_prefix(package)}{next(_load_numbers)}"
        self._paths = {self._top_name: self._root.parent}  # of modules, by their names
        self._own_names: dict[tuple[str, str], str | None] = {}  # what the files mean by absolute names
        self._sources: dict[Path, bytes] = {}
        self._served = ServedModules(databases)
        self._installed: dict[str, bool] = {}  # whether Python has a module of its own by that name
        self.executed: dict[str, ModuleType] = {}
        self.incidents: list[Incident] = []  # while files were loaded
        self.builtins = {**vars(builtins), "__import__": self._import}
        _finder.add(self._top_name, self)

    def load_function(self, file: Path, name: str) -> Callable[..., Any]:
        """PackageDefect when the file cannot be loaded, or has no such function."""
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
        except BaseException as error:  # a KeyboardInterrupt that a file raises would end the loop of all runs
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
        """Of a loading that nobody will use."""
        _forget_modules(self._top_name)

    def find(self, name: str) -> Path | None:
        """The file or the folder that is the module; Python has imported the one above before it asks."""
        if name not in self._paths:
            above, _, last = name.rpartition(".")
            place = find_module(self._paths[above] / last, self._root) if above in self._paths else None
            if place is None:
                return None
            self._paths[name] = place.parent if place.name == "__init__.py" else place
        return self._paths[name]

    def read_source(self, file: Path) -> bytes:
        """As it was when the first of those who import it was loaded."""
        if file not in self._sources:
            self._sources[file] = file.read_bytes()
            for each in read_code(file).imports:
                if each.is_relative:
                    found = resolve_relative(each.module, file, self._root)
                    needed = None if found is None else found.file
                else:
                    name = self._find_own_name(each.module, str(file))
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
        """What the statement binds, or takes `names` from; None for what is neither the package's nor served to it."""
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
        """For `from workflows import _shared, tools`: a module that has the package's own beside ours."""
        own = {name: module for name in names if (module := self._find_own_name(f"{folder}.{name}", file)) is not None}
        if not own or (folder == FOREIGN_WORKFLOWS and len(own) < len(names)):
            return None
        found = builtins.__import__(OWN_ROOT, fromlist=[name for name in names if name not in own])
        for name, module in own.items():
            found = _with_attribute(found, name, importlib.import_module(module))
        return found

    def _find_served_module(self, name: str, names: Sequence[str]) -> ModuleType | None:
        """Of the other runtime. What is installed under the name is never shadowed."""
        root = name.partition(".")[0]
        if root in ROOTS and root not in self._installed:
            self._installed[root] = is_installed(root, self._root)
        return None if self._installed.get(root, True) else self._served.import_module(name, names)

    def _find_own_name(self, name: str, file: str) -> str | None:
        """None for what is none of the package's files."""
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
        """Of the module that this file or folder is."""
        if path.name == "__init__.py":
            path = path.parent
        name, place = self._top_name, self._root.parent
        for part in path.relative_to(place).parts:
            place = place / part
            name = f"{name}.{_to_identifier(part.removesuffix('.py') if place == path else part)}"
            self._paths.setdefault(name, place)
        return name

    def _module_file(self, name: str) -> Path | None:
        """Of a module that was not imported yet."""
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
    """Runs that still hold functions of this version keep them; whoever builds it again loads them again."""
    _forget_modules(_module_prefix(package))


def _forget_modules(prefix: str) -> None:
    for name in [each for each in sys.modules.copy() if each.startswith(prefix)]:
        sys.modules.pop(name, None)


def _module_prefix(package: Package) -> str:
    place = hashlib.sha256(str(package.folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{PACKAGE_MODULE_PREFIX}{package.version}_{place}_"


def _to_identifier(part: str) -> str:
    """Files may have names that no import statement could say, and dots would mean another module."""
    if part.isidentifier():
        return part
    mark = zlib.crc32(part.encode(errors="surrogateescape"))
    return re.sub(r"\W", "_", part) + f"_{mark:08x}"


def _bind_workflows(own: str, parts: Sequence[str]) -> ModuleType:
    """Our `workflows` with the package's module, which Python has as `own`, under these parts of its name."""
    return _with_attribute(sys.modules[OWN_ROOT], parts[0], sys.modules[own.rsplit(".", len(parts) - 1)[0]])


def _with_attribute(module: ModuleType, name: str, value: ModuleType) -> ModuleType:
    """`import workflows._shared.x` gives its module a `workflows` that has this, and nobody else's."""
    stand_in = ModuleType(module.__name__)
    vars(stand_in).update({**vars(module), name: value})
    return stand_in
