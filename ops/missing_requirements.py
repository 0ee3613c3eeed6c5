"""Missing requirements: variables, secrets, hosts and workflows that a package names and this machine lacks."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from workers.settings import Settings
from workflows.context.external.external_urls import HOSTS_SETTING, fill_url
from workflows.context.reads.missing_values import NoValueError
from workflows.package.checks.trigger_checks import find_unknown_workflows
from workflows.package.environment_requirements import missing_environment_finding
from workflows.package.findings import Finding
from workflows.package.loader import Inspection
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import ExternalSource
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

MAX_SECRET_BYTES = 64 * 1024


def add_missing_requirements(
    inspection: Inspection, settings: Settings, *, workflows: Collection[str] | None = None
) -> Inspection:
    """Add findings for unmet needs, which deactivate triggers or variables but refuse no package.

    `workflows` are the names of all packages here, if known.
    """
    package = inspection.package
    if package is None:
        return inspection
    unmet = [*_find_missing_secrets(package, settings), *find_disallowed_hosts(package, settings)]
    required = missing_environment_finding(package, settings.environ)
    if required is not None:
        unmet.append(required)
    if workflows is not None:
        unmet += find_unknown_workflows(package, workflows)
    return replace(inspection, findings=(*inspection.findings, *unmet)) if unmet else inspection


def _find_missing_secrets(package: Package, settings: Settings) -> Iterator[Finding]:
    for file, path, reference, consequence in _secret_references(package):
        problem = _secret_problem(reference, settings)
        if problem is not None:
            yield Finding("warning", "secret_missing", file, path, f"{problem}; until then {consequence}")


def find_disallowed_hosts(package: Package, settings: Settings) -> Iterator[Finding]:
    file = package.file_names.get("context_variables", "context_variables")
    for variable in package.variables.values():
        problem = _host_problem(variable.source, settings) if isinstance(variable.source, ExternalSource) else None
        if problem is not None:
            message = f"{problem}; until then the variable is not loaded"
            yield Finding("warning", "host_not_allowed", file, f"{variable.place}.source.url", message)


def _host_problem(source: ExternalSource, settings: Settings) -> str | None:
    """Return the problem of a host that is not allowed; other problems of the address have findings of their own."""
    try:
        address = urlsplit(source.url)
        fill_url(f"{address.scheme}://{address.netloc}/", {}, allowed_hosts=settings.external_hosts)
    except ValueError:
        return None
    except NoValueError as error:
        return str(error) if HOSTS_SETTING in str(error) else None
    return None


def _secret_references(package: Package) -> Iterator[tuple[str, str, str, str]]:
    """Yield file, path, reference, and the consequence while the secret is missing."""
    names = package.file_names
    file = names.get("triggers") or names.get("orchestrator", "orchestrator")
    for spec in package.triggers:
        if isinstance(spec, WebhookSpec):
            for reference in spec.verify.secret:
                place = package.trigger_places.get(spec.name, "triggers")
                yield file, f"{place}.verify.secret", reference, "the trigger is inactive"
    for name, variable in package.variables.items():
        if isinstance(variable.source, ExternalSource) and variable.source.authorization is not None:
            reference, path = variable.source.authorization.secret, f"{variable.place or name}.source.auth"
            yield names.get("context_variables", "context_variables"), path, reference, "the variable is not loaded"


def _secret_problem(reference: str, settings: Settings) -> str | None:
    kind, _, name = reference.partition(":")
    try:
        # A package may name a device that never ends, or a pipe that waits for a writer.
        if kind == "file" and not _is_small_file(Path(name).expanduser()):
            return f"the secret {reference} is not a file of at most {MAX_SECRET_BYTES // 1024} KB; write it there"
        settings.resolve_secret(reference)
    except (ValueError, OSError, RuntimeError) as error:  # no such variable, no such file, no such ~user
        return str(error)
    return None


def _is_small_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MAX_SECRET_BYTES
