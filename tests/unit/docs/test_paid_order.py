"""docs/recipes/paid-order.md: the order that is written back fits the shipped package."""

import shutil
from pathlib import Path

import yaml

from tests.unit.docs.test_docs import ROOT, read
from workflows.package.loader import load_package
from workflows.package.normal_form.variable_sources import EntitySource

PAGE = ROOT / "docs" / "recipes" / "paid-order.md"


def test_the_order_that_is_written_back_loads_without_a_finding(tmp_path: Path) -> None:
    folder = tmp_path / "OrderFollowUp"
    shutil.copytree(ROOT / "workflows" / "library" / "OrderFollowUp", folder)
    written = read(PAGE).partition("## Write the result back")[2].partition("```yaml\n")[2].partition("```")[0]
    file = folder / "context_variables.yaml"
    body = yaml.safe_load(file.read_text(encoding="utf-8"))
    body["definitions"] |= yaml.safe_load(written)
    file.write_text(yaml.safe_dump(body), encoding="utf-8")

    package = load_package(folder)

    source = package.variables["order"].source
    assert package.findings == ()
    assert isinstance(source, EntitySource)
    assert source.write is not None
    assert (source.write.search_by, source.write.value) == ("_id", "{{order_id}}")
