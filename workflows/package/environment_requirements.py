"""Requirements of a package: the environment variables that its tools need. Names only, never their values."""

from collections.abc import Mapping

from workflows.package.findings import Finding
from workflows.package.normal_form.package_model import Package

MAX_SHOWN_NAMES = 10  # names


def find_missing_environment(package: Package, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The required variables that are absent or empty."""
    return tuple(name for name in package.orchestrator.required_environment if not environment.get(name))


def missing_environment_finding(package: Package, environment: Mapping[str, str]) -> Finding | None:
    """A warning: the machine that validates may not be the one that works."""
    missing = find_missing_environment(package, environment)
    if not missing:
        return None
    file = package.file_names.get("orchestrator", "orchestrator")
    message = f"{_problem(missing)}; a worker where it is not set fails runs of this package before any model call"
    return Finding("warning", "env_missing", file, "requires.env", message)


def missing_environment_error(package: Package, environment: Mapping[str, str]) -> str | None:
    """Why no run of it begins here, and what to do about it."""
    missing = find_missing_environment(package, environment)
    if not missing:
        return None
    return (
        f"{_problem(missing)}, and {package.name} requires it (requires.env of its orchestrator file); set it in the "
        "environment that the worker processes are started with, start them again, and replay the run"
    )


def _problem(missing: tuple[str, ...]) -> str:
    if len(missing) == 1:
        return f"the environment variable {missing[0]} is not set"
    more = [f"{len(missing) - MAX_SHOWN_NAMES} more"] if len(missing) > MAX_SHOWN_NAMES else []
    return f"each of the environment variables {', '.join([*missing[:MAX_SHOWN_NAMES], *more])} is needed and not set"
