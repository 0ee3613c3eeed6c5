"""The `unattended` command, and `run_package` for tests of packages.

Before any other import it binds the five packages to the folders beside this file. Their names are flat, and a user's
working directory or PYTHONPATH may have folders named `workflows`, `ops` or `workers` too.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workers.local_run.run_package import run_package, run_package_async

__all__ = ["main", "run_package", "run_package_async"]

ROOT = Path(__file__).resolve().parent
PACKAGE_NAMES = ("accounting", "workflows", "workers", "triggers", "ops")


def bind_packages() -> None:
    for name in PACKAGE_NAMES:
        folder = ROOT / name
        bound = sys.modules.get(name)
        if bound is not None and bound.__file__ == str(folder / "__init__.py"):
            continue
        spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
        if spec is None or spec.loader is None:
            raise SystemExit(f"unattended: the installation at {ROOT} lacks the folder {name}; install it again")
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


def __getattr__(name: str) -> Any:
    """Imports `run_package` on first use: the command does not need it."""
    if name not in ("run_package", "run_package_async"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    bind_packages()
    from workers.local_run import run_package as module

    return getattr(module, name)


def main() -> None:
    bind_packages()
    from ops.cli.main import run

    run()


if __name__ == "__main__":
    main()
