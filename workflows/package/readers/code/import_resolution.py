"""Import resolution: the package file that an import names.

The checks and the module finder use it. `from helper import x` is searched beside the importing file and then in the
package; `_shared.x`, `workflows._shared.x` and `factory_app.workflows._shared.x` in ../_shared; `from .helper import x`
as in Python. Modules of Python and of installed libraries come first: a file `stripe.py` must not replace the library
that it imports itself.
"""

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workflows.compat.served_names import FOREIGN_WORKFLOWS
from workflows.package.files.package_files import SHARED_FOLDER
from workflows.package.readers.code.parsed_code import OUR_PACKAGES, OWN_ROOT, TOOL_MODULES

_MAX_PARTS = 20
_MAX_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ResolvedModule:
    """The result of a search.

    `place` is the folder that contains the first part of the name.

    `file` is None for a folder without `__init__.py`, and if the rest of the name does not exist; see `exists`.
    """

    place: Path
    parts: tuple[str, ...]
    file: Path | None
    exists: bool


def resolve_absolute(name: str, file: Path, root: Path) -> ResolvedModule | None:
    """Resolves an absolute name in `file`.

    Returns None if nothing in the package `root` has that name.
    """
    parts = tuple(name.split("."))
    if not _is_valid_name(name, parts) or parts[0] in sys.stdlib_module_names:
        return None
    if name.startswith(f"{FOREIGN_WORKFLOWS}."):
        parts = parts[1:]
    if parts[0] == OWN_ROOT:
        own = parts[1:2] in ((SHARED_FOLDER,), (root.name,)) and ".".join(parts[:2]) not in TOOL_MODULES
        return next(_iter_resolved([root.parent], parts[1:], None, root), None) if own else None
    places = [file.parent, root, *([root.parent] if parts[0] == SHARED_FOLDER else [])]
    found = list(_iter_resolved(places, parts, file, root))
    return next((module for module in found if module.exists), next(iter(found), None))


def resolve_relative(name: str, file: Path, root: Path) -> ResolvedModule | None:
    """Resolves `.helper` or `..tools.helper` in `file`.

    Returns None if nothing in the package has that name.
    """
    parts = tuple(part for part in name.lstrip(".").split(".") if part)
    above = len(name) - len(name.lstrip(".")) - 1
    if not _is_valid_name(name, parts):
        return None
    return next(_iter_resolved(list(file.parents)[above : above + 1], parts, None, root), None)


def is_installed(name: str, root: Path) -> bool:
    """Returns whether Python finds a module of this name outside the package.

    It is not imported. Folders without `__init__.py` do not count: they may be in the working directory by chance.
    """
    top = name.partition(".")[0]
    if top in OUR_PACKAGES or top == OWN_ROOT:
        return False
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and not Path(spec.origin).is_relative_to(root)


def has_module(name: str) -> bool:
    """Returns whether an installed library has this module.

    Searches by folder: Python would import parents.
    """
    top, *below = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for part in below:
            if spec is None or spec.submodule_search_locations is None:
                return False
            places = list(spec.submodule_search_locations)
            spec = importlib.machinery.PathFinder.find_spec(f"{spec.name}.{part}", places)
    except (ImportError, ValueError):
        return False
    return spec is not None


def is_importable(name: str) -> bool:
    """Returns whether Python finds the first part of this name.

    A plain folder counts too. Nothing is imported.
    """
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return True  # it exists, with a broken spec


def find_parent_packages(file: Path, root: Path) -> Iterator[Path]:
    """Yields the `__init__.py` of each folder, which Python runs before the file."""
    top = root if file.is_relative_to(root) else root.parent / SHARED_FOLDER
    for folder in file.parents:
        if not folder.is_relative_to(top):
            return
        init = folder / "__init__.py"
        if init != file and init.is_file():
            yield init


def is_in_package(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) or path.is_relative_to(root.parent / SHARED_FOLDER)


def _is_valid_name(name: str, parts: tuple[str, ...]) -> bool:
    return (
        bool(parts)
        and len(name) <= _MAX_NAME_CHARACTERS
        and len(parts) <= _MAX_PARTS
        and all(map(str.isidentifier, parts))
    )


def _iter_resolved(
    places: list[Path], parts: tuple[str, ...], importing_file: Path | None, root: Path
) -> Iterator[ResolvedModule]:
    """Yields a result for each place that contains the first part of the name."""
    for place in places:
        first = find_module(place / parts[0], root)
        if first is None or first == importing_file:
            continue
        whole = find_module(place.joinpath(*parts), root)
        yield ResolvedModule(place, parts, whole if whole is not None and whole.is_file() else None, whole is not None)


def find_module(path: Path, root: Path) -> Path | None:
    """Returns the module's file at this path without suffix, or its folder."""
    for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if candidate.is_file():
            file = candidate.resolve()
            return file if is_in_package(file, root) else None
    return path if path.is_dir() and is_in_package(path.resolve(), root) else None
