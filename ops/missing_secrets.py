"""Missing secrets: references in a package that this machine cannot resolve. Never the secrets themselves."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from workers.settings import Settings
from workflows.package.findings import Finding
from workflows.package.loader import Inspection
from workflows.package.models import Package
from workflows.package.sources import ExternalSource
from workflows.package.trigger_specs import WebhookSpec

MAX_SECRET_BYTES = 64 * 1024


def with_missing_secrets(inspection: Inspection, settings: Settings) -> Inspection:
    """A trigger whose secret is missing is inactive; its package is not refused."""
    if inspection.package is None:
        return inspection
    missing = tuple(
        Finding("warning", "secret_missing", file, path, f"{problem}; until then {meanwhile}")
        for file, path, reference, meanwhile in _references(inspection.package)
        if (problem := _problem(reference, settings)) is not None
    )
    return replace(inspection, findings=(*inspection.findings, *missing)) if missing else inspection


def _references(package: Package) -> Iterator[tuple[str, str, str, str]]:
    """File, path, reference, and what it means that it is missing."""
    names = package.file_names
    file = names.get("triggers") or names.get("orchestrator", "orchestrator")
    for spec in package.triggers:
        if isinstance(spec, WebhookSpec):
            for reference in spec.verify.secret:
                yield file, f"triggers.{spec.name}.verify.secret", reference, "the trigger is inactive"
    for name, variable in package.variables.items():
        if isinstance(variable.source, ExternalSource) and variable.source.authorization is not None:
            reference, path = variable.source.authorization.secret, f"definitions.{name}.source.auth"
            yield names.get("context_variables", "context_variables"), path, reference, "the variable is not loaded"


def _problem(reference: str, settings: Settings) -> str | None:
    kind, _, name = reference.partition(":")
    try:
        # A package may name any file of this machine: also one that never ends, or waits for a writer.
        if kind == "file" and not _is_small_file(Path(name).expanduser()):
            return f"the secret {reference} is no file of at most {MAX_SECRET_BYTES // 1024} KB; write it there"
        settings.resolve_secret(reference)
    except (ValueError, OSError, RuntimeError) as error:  # no such variable, no such file, no such ~user
        return str(error)
    return None


def _is_small_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MAX_SECRET_BYTES
