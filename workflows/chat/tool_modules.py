"""Tool modules: a package's Python files, loaded by path, under names unique to package and version."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from typing_extensions import override

from workflows.chat.errors import PackageDefect
from workflows.package.models import Package


class PackageModules:
    """Loads each file of a package once, however many tools, hooks and steps are in it."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._loaded: dict[Path, ModuleType] = {}

    def function(self, file: Path, name: str) -> Callable[..., Any]:
        """PackageDefect when the file cannot be loaded, or has no such function."""
        function = getattr(self.module(file), name, None)
        if not callable(function):
            raise PackageDefect(f"{file.name} has no function {name}")
        found: Callable[..., Any] = function
        return found

    def module(self, file: Path) -> ModuleType:
        if file not in self._loaded:
            self._loaded[file] = _load_module(self._package, file)
        return self._loaded[file]

    @property
    def used(self) -> bool:
        return bool(self._loaded)


class _SourceOnly(SourceFileLoader):
    """Never from __pycache__: it knows a source by size and whole second, and an edit may keep both."""

    @override
    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _load_module(package: Package, file: Path) -> ModuleType:
    """Under a name unique to package and version: two versions of one tool live side by side."""
    place = hashlib.sha256(str(file).encode(errors="surrogateescape")).hexdigest()[:8]
    name = f"{_module_prefix(package)}{place}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file, loader=_SourceOnly(name, str(file)))
    if spec is None or spec.loader is None:
        raise PackageDefect(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and postponed annotations look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise PackageDefect(f"{file.name} failed when it was loaded: {type(error).__name__}: {error}") from error
    return module


def forget_tool_modules(package: Package) -> None:
    """Runs that still hold functions of this version keep them; whoever builds it again loads them again."""
    prefix = _module_prefix(package)
    for name in [each for each in sys.modules if each.startswith(prefix)]:
        del sys.modules[name]


def _module_prefix(package: Package) -> str:
    return f"unattended_package_{package.version}_"
