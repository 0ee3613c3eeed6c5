"""Names that a package may refer to: facts of runs, variables and inputs."""

from collections.abc import Set as AbstractSet

from workflows.context.reads.supplied_values import BASE_FLAGS
from workflows.context.run_facts import FIXED_NAMES
from workflows.package.normal_form.package_model import Package

KEY_FACTS = FIXED_NAMES - {"trigger"}  # scalars only: a query, a URL or a document key cannot hold a mapping
BASE_NAMES = FIXED_NAMES | set(BASE_FLAGS)


def known_names(package: Package) -> AbstractSet[str]:
    return BASE_NAMES | set(package.variables) | set(package.orchestrator.inputs)
