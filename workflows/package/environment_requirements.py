"""Environment variables that a package requires, by name, never by value."""

from collections.abc import Mapping

from workflows.package.findings import Finding
from workflows.package.normal_form.package_model import Package

MAX_SHOWN_NAMES = 10


def find_missing_environment(package: Package, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the required variables that are absent or empty."""
    return tuple(name for name in package.orchestrator.required_environment if not environment.get(name))


def missing_environment_finding(package: Package, environment: Mapping[str, str]) -> Finding | None:
    """Returns a warning for missing variables.

    It is no error, since runs may execute on another machine than the one that validates.
    """
    missing = find_missing_environment(package, environment)
    if not missing:
        return None
    file = package.file_names.get("orchestrator", "orchestrator")
    message = f"{_problem(missing)}; a worker without it fails runs of this package before any model call"
    return Finding("warning", "env_missing", file, "requires.env", message)


def missing_environment_error(package: Package, environment: Mapping[str, str]) -> str | None:
    """Returns why runs of a package cannot begin on this worker, and what to do."""
    missing = find_missing_environment(package, environment)
    if not missing:
        return None
    return (
        f"{_problem(missing)}, and {package.name} requires it (requires.env of its orchestrator file); set it in the "
        "environment of the worker processes, restart them, and replay the run"
    )


def _problem(missing: tuple[str, ...]) -> str:
    if len(missing) == 1:
        return f"the environment variable {missing[0]} is not set"
    more = [f"{len(missing) - MAX_SHOWN_NAMES} more"] if len(missing) > MAX_SHOWN_NAMES else []
    return f"required environment variables are not set: {', '.join([*missing[:MAX_SHOWN_NAMES], *more])}"
