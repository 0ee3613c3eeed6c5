"""The Python files of tools and hooks: located and parsed, never imported."""

from pathlib import Path
from typing import Literal

from workflows.package.files.package_files import SHARED_FOLDER
from workflows.package.readers.code.import_checks import report_imports
from workflows.package.readers.code.parsed_code import ParsedCode, read_code
from workflows.package.readers.section import Section


class PackageCode:
    """Locates the code that one package file names.

    Parses and reports each Python file once.
    """

    def __init__(self, folder: Path, *, kind: Literal["tool", "hook"]) -> None:
        self._root = folder.resolve()
        self._shared = self._root.parent / SHARED_FOLDER
        self._kind = kind
        self._folders = ("", "tools") if kind == "tool" else ("", "tools", "hooks")
        self._parsed_files: dict[Path, ParsedCode] = {}
        self._checked_files: set[Path] = set()
        self._reported: dict[Path, bool] = {}  # by file, whether it was reported as needed at load

    def locate(
        self,
        section: Section,
        name: str,
        function: str,
        *,
        fields: tuple[str, str],
        extra_folders: tuple[str, ...] = (),
    ) -> Path | None:
        """Returns the file after checking that it defines `function`.

        Returns None if it does not exist.

        `fields` are the fields of both names, for findings. `extra_folders`: further folders to search.
        """
        file_field, function_field = fields
        file = self._find_file(section, name, file_field, (*self._folders, *extra_folders))
        if file is None:
            return None
        code = self._read_code(section, file, file_field)
        if code.fault is None and function and not code.defines(function):
            message = f"{file.name} does not define {function}; define it there at the top level"
            section.error(f"missing_{self._kind}_function", function_field, message)
        return file

    def has_file(self, name: str) -> bool:
        """Returns whether the package has this file. Adds no findings."""
        try:
            files = [(self._root / folder / name).resolve() for folder in self._folders]
            return any(self._is_allowed(file) and file.is_file() for file in files)
        except (OSError, ValueError, RuntimeError):
            return False

    def _find_file(self, section: Section, name: str, field: str, folders: tuple[str, ...]) -> Path | None:
        try:
            for folder in folders:
                file = (self._root / folder / name).resolve()
                if not self._is_allowed(file):
                    message = f"{name} is outside the package; move the file into it, or into ../{SHARED_FOLDER}"
                    section.error("leaves_package", field, message)
                    return None
                if file.is_file():
                    return file
        except (OSError, ValueError, RuntimeError):  # NUL, too long, or circular links
            section.error("wrong_value", field, "is not the name of a file")
            return None
        searched = " or ".join(f"{folder}/" for folder in folders if folder)
        message = f"{name} is neither in the package nor in its {searched}; add it there, or correct the name"
        section.error(f"missing_{self._kind}_file", field, message)
        return None

    def _is_allowed(self, file: Path) -> bool:
        return file.is_relative_to(self._root) or file.is_relative_to(self._shared)

    def _read_code(self, section: Section, file: Path, field: str) -> ParsedCode:
        code = self._parse_once(file)
        if code.fault is not None:
            section.error(
                f"broken_{self._kind}_file", field, f"{file.name} cannot be parsed: {code.fault}; correct the file"
            )
        elif file not in self._checked_files:
            self._checked_files.add(file)
            report_imports(section, field, file, root=self._root, read_code=self._parse_once, reported=self._reported)
        return code

    def _parse_once(self, file: Path) -> ParsedCode:
        if file not in self._parsed_files:
            self._parsed_files[file] = read_code(file)
        return self._parsed_files[file]
