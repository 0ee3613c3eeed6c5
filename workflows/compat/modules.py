"""The served modules of one package: made for it alone, so that what it changes in them is changed for no other."""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from workflows.compat.core_config import client_function
from workflows.compat.databases import Databases
from workflows.compat.names import SERVED, ServedModule, is_served_within


class ServedModules:
    """Answers the imports of served names; each module is made when it is first imported."""

    def __init__(self, databases: Databases) -> None:
        self._made: dict[str, ModuleType] = {}
        self._folders: dict[str, ModuleType] = {}
        self._provided = {"get_mongo_client": client_function(databases)}

    def import_module(self, name: str, names: Sequence[str]) -> ModuleType | None:
        """What an import statement binds, or takes `names` from; None for what is not served."""
        if name in SERVED and (names or SERVED[name].is_whole):
            module = self._module(name)
            return module if names else self._put_into_folders(name, module)
        if names and all(is_served_within(name, each) for each in names):
            for each in names:
                self._put_into_folders(f"{name}.{each}", self._module(f"{name}.{each}"))
            return self._folders[name]
        return None

    def _module(self, name: str) -> ModuleType:
        if name not in self._made:
            module = ModuleType(name, importlib.import_module(f"workflows.compat.{SERVED[name].module}").__doc__)
            vars(module).update(self._contents(SERVED[name]))
            self._made[name] = module
        return self._made[name]

    def _contents(self, served: ServedModule) -> Mapping[str, Any]:
        ours = vars(importlib.import_module(f"workflows.compat.{served.module}"))
        names = {name: self._provided.get(name) or ours[name] for name in served.names}
        return {**names, "__all__": sorted(names)}

    def _put_into_folders(self, name: str, module: ModuleType) -> ModuleType:
        """The module of the first part of the name, from which the others lead to `module`."""
        folder, _, last = name.rpartition(".")
        if not folder:
            return module
        if folder not in self._folders:
            self._folders[folder] = self._made.get(folder) or ModuleType(folder)
        setattr(self._folders[folder], last, module)
        return self._put_into_folders(folder, self._folders[folder])
