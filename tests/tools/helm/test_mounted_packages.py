"""Packages in a volume of a ConfigMap: symbolic links to a folder that Kubernetes swaps as a whole."""

import shutil
from pathlib import Path

from workflows.package.catalog import LIBRARY, Catalog


class Volume:
    """Write links as the kubelet does: `Morning` -> `..data/Morning`, `..data` -> `..of_its_time`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def publish(self, version: str) -> None:
        written = self.root / f"..{version}" / "Morning"
        shutil.copytree(LIBRARY / "DailyDigest", written, ignore=shutil.ignore_patterns("__pycache__"))
        orchestrator = written / "orchestrator.yaml"
        text = orchestrator.read_text(encoding="utf-8").replace("workflow_name: DailyDigest", "workflow_name: Morning")
        orchestrator.write_text(f"{text}\n# {version}\n", encoding="utf-8")
        before = self.root / "..data"
        replaced = before.resolve() if before.is_symlink() else None
        (self.root / "..data_tmp").symlink_to(f"..{version}")
        (self.root / "..data_tmp").replace(before)
        if replaced is None:
            (self.root / "Morning").symlink_to("..data/Morning")
        else:
            shutil.rmtree(replaced)


def test_a_package_in_a_config_map_is_used_and_exchanged_without_a_restart(tmp_path: Path) -> None:
    volume, catalog = Volume(tmp_path), Catalog([tmp_path])

    volume.publish("first")
    first = catalog.packages()
    volume.publish("second")
    catalog.invalidate()
    second = catalog.packages()

    assert set(first) == set(second) == {"Morning"}
    assert first["Morning"].version != second["Morning"].version
    assert catalog.refusals == {}
    # A run keeps its pinned version although its files are gone.
    assert catalog.get("Morning", version=first["Morning"].version) == first["Morning"]
