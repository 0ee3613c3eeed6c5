"""The Python file of a tool or hook: found inside the package and parsed, never imported."""

from pathlib import Path
from typing import Literal

from workflows.package.raw.files import SHARED
from workflows.package.reading.imports import report_imports
from workflows.package.reading.parsed_code import Code, read_code
from workflows.package.reading.section import Section


class PackageCode:
    """The code that one package file names; each Python file is read once, and what is foreign in it is said once."""

    def __init__(self, folder: Path, *, kind: Literal["tool", "hook"]) -> None:
        self._root = folder.resolve()
        self._shared = self._root.parent / SHARED
        self._kind = kind
        self._folders = ("", "tools") if kind == "tool" else ("", "tools", "hooks")
        self._read: dict[Path, Code] = {}
        self._located: set[Path] = set()
        self._told: dict[Path, bool] = {}  # of what they import, and whether as needed to load a tool

    def locate(
        self, section: Section, name: str, function: str, *, fields: tuple[str, str], also_in: tuple[str, ...] = ()
    ) -> Path | None:
        """The file, once it is found, parsed and searched for `function`; `fields` are where an author wrote both.
        `also_in`: further folders of the package in which it may lie."""
        file_field, function_field = fields
        file = self._find(section, name, file_field, (*self._folders, *also_in))
        if file is None:
            return None
        code = self._code(section, file, file_field)
        if code.fault is None and function and not code.defines(function):
            message = f"{file.name} does not define {function}; define it there at the top level"
            section.error(f"missing_{self._kind}_function", function_field, message)
        return file

    def has(self, name: str) -> bool:
        """Whether the package has this file in one of its folders, without saying anything about it."""
        try:
            files = [(self._root / folder / name).resolve() for folder in self._folders]
            return any(self._allowed(file) and file.is_file() for file in files)
        except (OSError, ValueError, RuntimeError):
            return False

    def _find(self, section: Section, name: str, field: str, folders: tuple[str, ...]) -> Path | None:
        try:
            for folder in folders:
                file = (self._root / folder / name).resolve()
                if not self._allowed(file):
                    message = f"{name} is outside the package; only ../{SHARED} is allowed, copy the file there"
                    section.error("leaves_package", field, message)
                    return None
                if file.is_file():
                    return file
        except (OSError, ValueError, RuntimeError):  # NUL, too long, or links in a circle: no file has such a name
            section.error("wrong_value", field, "is not the name of a file")
            return None
        searched = " or ".join(f"{folder}/" for folder in folders if folder)
        message = f"{name} is not in the package, nor in its {searched}; add it there, or correct the name"
        section.error(f"missing_{self._kind}_file", field, message)
        return None

    def _allowed(self, file: Path) -> bool:
        return file.is_relative_to(self._root) or file.is_relative_to(self._shared)

    def _code(self, section: Section, file: Path, field: str) -> Code:
        code = self._parsed(file)
        if code.fault is not None:
            section.error(
                f"broken_{self._kind}_file", field, f"{file.name} cannot be parsed: {code.fault}; correct the file"
            )
        elif file not in self._located:
            self._located.add(file)
            report_imports(section, field, file, root=self._root, read=self._parsed, told=self._told)
        return code

    def _parsed(self, file: Path) -> Code:
        if file not in self._read:
            self._read[file] = read_code(file)
        return self._read[file]
