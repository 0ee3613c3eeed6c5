"""Every type of trigger that a package may name is a kind of its own, in a folder that the pages name."""

import sys
from pathlib import Path
from typing import get_args

import pytest

from triggers.kind_registry import KINDS
from triggers.trigger_kind import Role
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE

ROOT = Path(__file__).parents[3]
TYPES = sorted({str(spec.model_fields["type"].default) for spec in SPEC_BY_TYPE.values()})


def test_each_type_has_a_kind_and_no_kind_is_without_a_type() -> None:
    assert sorted(KINDS) == TYPES


@pytest.mark.parametrize("type_", TYPES)
def test_a_kind_names_its_role_and_is_one_documented_folder(type_: str) -> None:
    kind = KINDS[type_]
    module = sys.modules[type(kind).__module__]

    assert kind.type == type_
    assert kind.role in get_args(Role)
    assert module.__name__.startswith("triggers.")
    assert module.__name__.endswith("_kind")
    folder = Path(str(module.__file__)).parent
    assert f"triggers/{folder.name}/" in (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
