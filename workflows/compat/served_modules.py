"""The served modules of one package.

Each package gets its own, so its changes do not affect other packages.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from workflows.compat.core_config import make_client_function
from workflows.compat.databases import Databases
from workflows.compat.served_names import SERVED, ServedModule, is_served_within


class ServedModules:
    """Resolves imports of served names, and creates each module on its first import."""

    def __init__(self, databases: Databases) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._folders: dict[str, ModuleType] = {}
        self._provided = {"get_mongo_client": make_client_function(databases)}

    def import_module(self, name: str, names: Sequence[str]) -> ModuleType | None:
        """Returns the module that an import statement binds or takes `names` from.

        Returns None if it is not served.
        """
        if name in SERVED and (names or SERVED[name].is_whole):
            module = self._get_module(name)
            return module if names else self._attach_to_parents(name, module)
        if names and all(is_served_within(name, child) for child in names):
            for child in names:
                self._attach_to_parents(f"{name}.{child}", self._get_module(f"{name}.{child}"))
            return self._folders[name]
        return None

    def _get_module(self, name: str) -> ModuleType:
        if name not in self._modules:
            module = ModuleType(name, importlib.import_module(f"workflows.compat.{SERVED[name].module}").__doc__)
            vars(module).update(self._module_contents(SERVED[name]))
            self._modules[name] = module
        return self._modules[name]

    def _module_contents(self, served: ServedModule) -> Mapping[str, Any]:
        ours = vars(importlib.import_module(f"workflows.compat.{served.module}"))
        names = {name: self._provided.get(name) or ours[name] for name in served.names}
        return {**names, "__all__": sorted(names)}

    def _attach_to_parents(self, name: str, module: ModuleType) -> ModuleType:
        """Attaches `module` to its parent modules, and returns the topmost."""
        folder, _, last = name.rpartition(".")
        if not folder:
            return module
        if folder not in self._folders:
            self._folders[folder] = self._modules.get(folder) or ModuleType(folder)
        setattr(self._folders[folder], last, module)
        return self._attach_to_parents(folder, self._folders[folder])
