"""Line numbers of findings, looked up only for display, by parsing the file again."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from workflows.package.files.data_files import read_document
from workflows.package.files.package_files import WRAPPERS
from workflows.package.findings import Finding, PackageError

_INDEX = re.compile(r"\[(\d{1,9})\]")
_NAMES = frozenset({"name", "agent_name", "agent", "id"})

NodeLocation = tuple[int, yaml.Node]


def locate_findings(findings: Iterable[Finding], folder: Path) -> tuple[Finding, ...]:
    """Adds to each finding the line of its path.

    If the path does not exist, its nearest existing part is used.
    """
    places: dict[str, LineIndex | None] = {}
    located = []
    for finding in findings:
        if finding.line is None and finding.path:
            if finding.file not in places:
                places[finding.file] = _read_line_index(folder / finding.file)
            found = places[finding.file]
            located.append(finding if found is None else replace(finding, line=found.find_line(finding.path)))
        else:
            located.append(finding)
    return tuple(located)


def _read_line_index(path: Path) -> "LineIndex | None":
    """Returns None unless the path is a data file.

    JSON is parsed as YAML, which it nearly always is.
    """
    try:
        if path.suffix not in (".yaml", ".yml", ".json") or not path.is_file():
            return None
        read_document(path)  # checks the bounds first: composing recurses without a limit
        root = yaml.compose(path.read_bytes().decode("utf-8-sig"), yaml.CSafeLoader)
    except (OSError, ValueError, PackageError, yaml.YAMLError):
        return None
    return None if root is None else LineIndex(root, path.stem)


class LineIndex:
    def __init__(self, root: yaml.Node, stem: str) -> None:
        self._root = root
        self._stem = stem
        self._steps: dict[int, Mapping[str, NodeLocation]] = {}

    def find_line(self, path: str) -> int | None:
        """Returns the line of a finding's path.

        Names may contain dots, and named list entries are found by name.
        """
        steps = self._steps_of(self._root)
        wrapped = [steps[key][1] for key in WRAPPERS.get(self._stem, (self._stem,)) if key in steps]
        starts = [self._root, *wrapped]
        found = [self._walk(start, path) for start in starts]
        if isinstance(self._root, yaml.SequenceNode) and "[" in path:  # the file is a bare list
            found.append(self._walk(self._root, path[path.find("[") :]))
        line, _ = min(found, key=lambda walked: walked[1])
        return line

    def _walk(self, node: yaml.Node, path: str) -> tuple[int | None, int]:
        """Returns the line of the deepest node on this path.

        The second value is the length of the rest of the path.
        """
        line: int | None = None
        while path:
            index = _INDEX.match(path)
            if index is not None:
                length = index.end()
                step = _item_step(node, int(index[1]))
            else:
                length, step = self._longest_step(node, path)
            if step is None:
                break
            (line, node), path = step, path[length:].removeprefix(".")
        return line, len(path)

    def _longest_step(self, node: yaml.Node, path: str) -> tuple[int, NodeLocation | None]:
        steps = self._steps_of(node)
        ends = [len(path), *(at.start() for at in re.finditer(r"[.\[]", path))]
        return next(((end, steps[path[:end]]) for end in sorted(ends, reverse=True) if path[:end] in steps), (0, None))

    def _steps_of(self, node: yaml.Node) -> Mapping[str, NodeLocation]:
        known = self._steps.get(id(node))
        if known is None:
            known = self._steps[id(node)] = _named_steps(node)
        return known


def _named_steps(node: yaml.Node) -> dict[str, NodeLocation]:
    if isinstance(node, yaml.MappingNode):
        keys = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        return {key.value: (key.start_mark.line + 1, value) for key, value in keys}
    steps: dict[str, NodeLocation] = {}
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            if key.value in _NAMES and isinstance(value, yaml.ScalarNode):
                steps.setdefault(value.value, (item.start_mark.line + 1, item))
    return steps


def _item_step(node: yaml.Node, index: int) -> NodeLocation | None:
    if not isinstance(node, yaml.SequenceNode) or index >= len(node.value):
        return None
    item = node.value[index]
    return item.start_mark.line + 1, item
