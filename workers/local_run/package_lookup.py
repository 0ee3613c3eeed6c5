"""The lookup of the package to run: by its folder, or by its name in the catalog."""

import os
from pathlib import Path

from workers.local_run.local_request import NotStartedError, WrongUseError
from workers.settings import Settings
from workflows.package.catalog import LIBRARY, Catalog, find_package_folders, package_directories
from workflows.package.files.package_files import looks_like_package
from workflows.package.loader import Inspection, inspect_package
from workflows.package.normal_form.package_model import Package


def chosen_package(workflow: str | Path, settings: Settings) -> Package:
    """Finds the package by folder or name.

    A folder precedes a name: a user in the parent folder of a package means that package.
    """
    folder = Path(workflow).expanduser()
    if isinstance(workflow, Path) or os.sep in workflow or folder.parts in ((), ("..",)) or looks_like_package(folder):
        return _in_folder(folder, production=settings.production)
    return _by_name(str(workflow), settings)


def _in_folder(folder: Path, *, production: bool) -> Package:
    if not folder.is_dir():
        what = "is a file; name the directory of its package" if folder.exists() else "does not exist"
        raise WrongUseError(f"{folder} {what}")
    held = find_package_folders(folder)
    if held and held != [folder]:
        raise WrongUseError(f"{folder} holds {len(held)} packages; name one of them, such as {held[0]}")
    inspection = inspect_package(folder.absolute(), production=production)
    if inspection.package is None or inspection.obstacles:
        raise NotStartedError(_why(inspection))
    return inspection.package


def _why(inspection: Inspection) -> str:
    first, more = inspection.obstacles[0], len(inspection.obstacles) - 1
    rest = f" (and {more} more)" if more else ""
    return f"{inspection.name} is not started: {first}{rest}; see `unattended validate {inspection.folder}`"


def _by_name(name: str, settings: Settings) -> Package:
    catalog = Catalog(tuple(dict.fromkeys((*package_directories(settings.packages), LIBRARY))))
    package = catalog.get(name)
    if package is not None:
        return package
    why = catalog.explain_refusal(name)
    if why is not None:
        raise NotStartedError(why)
    known = ", ".join(sorted(catalog.packages())) or "none"
    raise WrongUseError(f"there is no package {name}, and no such directory; there are: {known}")
