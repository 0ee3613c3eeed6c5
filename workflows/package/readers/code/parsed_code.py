"""Definitions and imports of a Python file, from its syntax tree.

The file is never imported.
"""

import ast
import hashlib
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from workflows.compat.served_names import FOREIGN_WORKFLOWS, is_served_within
from workflows.package.readers.code.plain_functions import find_plain_functions

MAX_CODE_BYTES = 1024 * 1024
MAX_CACHED_FILES = 2048
ANY_NAME = "*"  # stands for the names of `from x import *`, which are known only after the import

FOREIGN_ROOTS = frozenset({"mozaiks", "mozaiksai", "core", "logs", "factory_app", "autogen"})
OWN_ROOT = "workflows"  # our package, and also the other runtime's folder of packages
# Importable in a worker, but not for packages: such a name means the package's own file.
OUR_PACKAGES = frozenset({"accounting", "ops", "triggers", "unattended", "workers"})
_FOLDERS = frozenset({OWN_ROOT, FOREIGN_WORKFLOWS})  # imports from these take modules, not names
TOOLS_MODULE = "workflows.tools"
TOOL_MODULES = (TOOLS_MODULE, "workflows.context")
_OWN_FOLDER = Path(__file__).resolve().parents[3]
_IMPORTING_CALLS = frozenset({"import_module", "__import__"})
_LITERALS = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)


@dataclass(frozen=True, slots=True)
class Import:
    """An import of a module; a relative one keeps its dots.

    `is_at_load`: the importing file cannot be loaded without the module. `is_by_call`: by `import_module`, which finds
    only installed modules. `names` are imported from it; loading fails without those in `names_at_load`.
    """

    module: str
    is_at_load: bool
    is_by_call: bool = False
    names: tuple[str, ...] = ()
    names_at_load: frozenset[str] = frozenset()

    @property
    def is_relative(self) -> bool:
        return self.module.startswith(".")

    @property
    def is_foreign(self) -> bool:
        """Returns whether the module belongs to another runtime."""
        root, dot, _ = self.module.partition(".")
        return root in FOREIGN_ROOTS or (root == OWN_ROOT and bool(dot) and not self._is_tool_module)

    @property
    def is_missing_here(self) -> bool:
        """Returns whether it names a module for tools that does not exist.

        Checks the disk, without importing.
        """
        if not self._is_tool_module:
            return False
        file = _OWN_FOLDER.joinpath(*self.module.split(".")[1:])
        return not (file.is_dir() or file.with_suffix(".py").is_file())

    @property
    def _is_tool_module(self) -> bool:
        return any(f"{self.module}.".startswith(f"{allowed}.") for allowed in TOOL_MODULES)


@dataclass(frozen=True, slots=True)
class ParsedCode:
    """The facts about a module.

    `names`: its top-level definitions. `fault`: why it cannot be parsed. `extends_path`: it uses sys.path. `ui_tools`:
    the literal tool ids with which it asks people. `plain_functions`: functions that never receive the context.
    """

    names: frozenset[str] = frozenset()
    imports: tuple[Import, ...] = ()
    fault: str | None = None
    extends_path: bool = False
    ui_tools: frozenset[str] = frozenset()
    plain_functions: frozenset[str] = frozenset()

    def defines(self, name: str) -> bool:
        return name in self.names or ANY_NAME in self.names


class _CodeCache:
    """Caches parsed code by content.

    Packages share files, and an edit may keep size and time. Thread-safe.
    """

    def __init__(self, *, max_files: int = MAX_CACHED_FILES) -> None:
        self._max_files = max_files
        self._code_by_digest: dict[bytes, ParsedCode] = {}
        self._lock = threading.Lock()

    def get(self, content: bytes) -> ParsedCode:
        key = hashlib.sha256(content).digest()
        with self._lock:  # parsing holds the GIL anyway
            code = self._code_by_digest.pop(key, None) or _parse(content)
            self._code_by_digest[key] = code  # moved to the end: the least recently used one is dropped
            while len(self._code_by_digest) > self._max_files:
                del self._code_by_digest[next(iter(self._code_by_digest))]
        return code


_code_cache = _CodeCache()
_parse_lock = threading.Lock()  # `warnings` is not thread-safe


def read_code(file: Path) -> ParsedCode:
    try:
        with file.open("rb") as source:
            content = source.read(MAX_CODE_BYTES + 1)
    except OSError as error:
        return ParsedCode(fault=error.strerror or "it cannot be read")
    if len(content) > MAX_CODE_BYTES:
        return ParsedCode(fault=f"it is larger than {MAX_CODE_BYTES // 1024 // 1024} MB")
    return _code_cache.get(content)


def read_tool_names(module: str) -> frozenset[str] | None:
    """Returns the names in our module for tools, from its file.

    Returns None for any other module.
    """
    return read_code(_OWN_FOLDER / "tools.py").names if module == TOOLS_MODULE else None


def parse_module(content: bytes) -> ast.Module:
    """Parses a module. Raises SyntaxError, ValueError, RecursionError or MemoryError."""
    with _parse_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about style, such as the escape \d in a plain string
        return ast.parse(content)


def _parse(content: bytes) -> ParsedCode:
    try:
        tree = parse_module(content)
    except SyntaxError as error:
        return ParsedCode(fault=f"line {error.lineno}: {error.msg}" if error.lineno else error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return ParsedCode(fault=str(error) if isinstance(error, ValueError) else "it is nested too deeply")
    names: set[str] = set()
    definitions: list[tuple[ast.stmt, frozenset[str]]] = []
    imports: dict[tuple[str, bool], bool] = {}
    names_by_module: dict[str, dict[str, bool]] = {}  # and whether loading fails without them
    has_calls = any(call.encode() in content for call in _IMPORTING_CALLS)  # searching expressions is slow
    for statement, top, at_load in _iter_statements(tree):
        if top:
            definitions.append((statement, frozenset(_iter_defined_names(statement))))
            names.update(definitions[-1][1])
        keys = [(module, False) for module in _iter_imported_modules(statement)]
        keys += _iter_called_imports(statement) if has_calls else []
        for key in keys:
            imports[key] = imports.get(key, False) or at_load
        for module, name in _list_taken_names(statement):
            module_names = names_by_module.setdefault(module, {})
            module_names[name] = module_names.get(name, False) or at_load
    import_list = tuple(
        _make_import(module, at_load, is_by_call, {} if is_by_call else names_by_module.get(module, {}))
        for (module, is_by_call), at_load in imports.items()
    )
    ui_tools = frozenset(_iter_ui_tools(tree)) if b"use_ui_tool" in content else frozenset()
    return ParsedCode(
        frozenset(names),
        import_list,
        extends_path=b"sys.path" in content,
        ui_tools=ui_tools,
        plain_functions=frozenset() if ANY_NAME in names else find_plain_functions(definitions),
    )


def _make_import(module: str, is_at_load: bool, is_by_call: bool, names: Mapping[str, bool]) -> Import:
    names_at_load = frozenset(name for name, is_needed in names.items() if is_needed)
    return Import(module, is_at_load, is_by_call, tuple(names), names_at_load)


def _iter_ui_tools(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "use_ui_tool" in (
            getattr(node.func, "id", ""),
            getattr(node.func, "attr", ""),
        ):
            arguments = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "tool_id")]
            yield from (
                argument.value
                for argument in arguments
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            )


def _iter_statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """Yields every statement, whether it is in the module's scope, and whether it runs at load.

    Skips expressions: there are far more of them, and they contain neither imports nor definitions.
    """
    pending: list[tuple[ast.stmt, bool, bool]] = [(statement, True, True) for statement in reversed(tree.body)]
    while pending:
        statement, top, at_load = pending.pop()
        yield statement, top, at_load
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            top = at_load = False
        elif isinstance(statement, ast.ClassDef):
            top = False
        if hasattr(statement, "body") or isinstance(statement, ast.Match):  # most have no blocks
            for body, runs in reversed(list(_iter_bodies(statement, at_load=at_load))):
                pending.extend((inner, top, at_load and runs) for inner in reversed(body))


def _iter_bodies(statement: ast.stmt, *, at_load: bool) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Yields the blocks of a statement, and whether each certainly runs with it, unguarded."""
    guarded = at_load and isinstance(statement, ast.If) and _is_false_at_load(statement.test)
    if isinstance(statement, ast.Try | ast.TryStar):
        guarded = any(_catches_import_errors(handler) for handler in statement.handlers)
        for handler in statement.handlers:
            yield handler.body, False
    elif isinstance(statement, ast.Match):
        for case in statement.cases:
            yield case.body, True
    yield getattr(statement, "body", []), not guarded
    for name in ("orelse", "finalbody"):
        yield getattr(statement, name, []), True


def _is_false_at_load(test: ast.expr) -> bool:
    names = {getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(test)}
    return bool(names & {"TYPE_CHECKING", "__name__"})


def _catches_import_errors(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {getattr(node, "id", None) for node in ast.walk(handler.type)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _iter_defined_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if not (isinstance(target, ast.Name) and isinstance(statement.value, _LITERALS)):
                yield from _iter_target_names(target)
    elif isinstance(statement, ast.AnnAssign) and not isinstance(statement.value, (*_LITERALS, type(None))):
        yield from _iter_target_names(statement.target)


def _iter_target_names(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _iter_imported_modules(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        if module in _FOLDERS or not statement.module:  # the imported names are modules
            within = f"{module}." if statement.module else module
            yield from (within + alias.name for alias in statement.names)
        else:
            served = {alias.name for alias in statement.names if is_served_within(module, alias.name)}
            yield from (f"{module}.{name}" for name in sorted(served))
            if len(served) < len(statement.names):
                yield module


def _list_taken_names(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yields module and name of each `from module import name`, without stars."""
    if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
        yield from ((statement.module, alias.name) for alias in statement.names if alias.name != ANY_NAME)


def _iter_called_imports(statement: ast.stmt) -> Iterator[tuple[str, bool]]:
    """Yields the literal names in `importlib.import_module("a.b")`.

    `__import__` is like a statement.
    """
    for expression in (child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)):
        for node in ast.walk(expression):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            module = getattr(node.args[0], "value", None)
            if name in _IMPORTING_CALLS and isinstance(module, str) and module and not module.startswith("."):
                yield module, name == "import_module"
