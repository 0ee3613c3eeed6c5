"""The module finder: locates packages' modules for Python, under unique names."""

import sys
import weakref
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from workflows.chat.package_code.package_modules import PackageModules

PACKAGE_MODULE_PREFIX = "unattended_package_"  # first part of every package module's name


class ModuleFinder(MetaPathFinder):
    def __init__(self) -> None:
        # Weak: an entry lives as long as any function of its modules, which hold their `__import__`.
        self._by_top: weakref.WeakValueDictionary[str, PackageModules] = weakref.WeakValueDictionary()

    def add(self, top: str, modules: "PackageModules") -> None:
        self._by_top[top] = modules
        if self not in sys.meta_path:
            # First: of a folder with `__init__.py`, Python's own finder would load files without `builtins`.
            sys.meta_path.insert(0, self)

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PACKAGE_MODULE_PREFIX):
            return None
        modules = self._by_top.get(fullname.partition(".")[0])
        if modules is None:
            return None
        place = modules.find(fullname)
        if place is None:  # raised, so that no other finder follows a link out of the package
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        init = place / "__init__.py"
        file = place if place.suffix == ".py" and not place.is_dir() else init
        if "." not in fullname or (file is init and not init.is_file()):
            return ModuleSpec(fullname, None, is_package=True)  # a folder without code
        loader = _SourceLoader(fullname, file, modules)
        return spec_from_file_location(
            fullname, file, loader=loader, submodule_search_locations=[] if file is init else None
        )


class _SourceLoader(SourceFileLoader):
    """Loads sources, never __pycache__: an edit may keep a file's size and second."""

    def __init__(self, name: str, file: Path, modules: "PackageModules") -> None:
        super().__init__(name, str(file))
        self._modules = modules

    @override
    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self._modules.read_source(Path(self.path)), self.path)
        return code

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._modules.executed.get(spec.name)

    @override
    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ not in self._modules.executed:
            vars(module)["__builtins__"] = self._modules.builtins
            super().exec_module(module)
            self._modules.executed[module.__name__] = module
