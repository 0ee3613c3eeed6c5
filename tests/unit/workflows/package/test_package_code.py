"""The Python files of packages: located inside the package, parsed once, never imported."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workflows.package.findings import Finding, Findings
from workflows.package.readers.code import parsed_code
from workflows.package.readers.code.package_code import PackageCode
from workflows.package.readers.code.parsed_code import MAX_CODE_BYTES, Import, ParsedCode, read_code
from workflows.package.readers.section import Section

GREET = "def greet(): ...\n"


def locate_function(
    folder: Path, name: str, function: str = "greet", *, code: PackageCode | None = None
) -> tuple[Path | None, tuple[Finding, ...]]:
    findings = Findings()
    section = Section({}, file="tools.yaml", path="tools[0]", findings=findings)
    code = code or PackageCode(folder, kind="tool")
    return code.locate(section, name, function, fields=("file", "function")), findings.all


def codes(folder: Path, name: str, function: str = "greet") -> list[tuple[str, str, str]]:
    return [(finding.level, finding.code, finding.path) for finding in locate_function(folder, name, function)[1]]


def package(folder: Path, **files: str) -> Path:
    root = folder / "P"
    (root / "tools").mkdir(parents=True)
    for name, source in files.items():
        (root / "tools" / f"{name}.py").write_text(source)
    return root


def parse_module(folder: Path, source: str) -> ParsedCode:
    file = folder / "one.py"
    file.write_text(source)
    return read_code(file)


@pytest.mark.design("D4-63")
@pytest.mark.parametrize("written", ["greet.py", "tools/greet.py", "../P/tools/greet.py", "./tools/../tools/greet.py"])
def test_a_file_is_found_in_the_package_or_in_its_tools(tmp_path: Path, written: str) -> None:
    root = package(tmp_path, greet=GREET)

    assert locate_function(root, written) == (root / "tools" / "greet.py", ())


def test_the_package_itself_comes_before_its_tools(tmp_path: Path) -> None:
    root = package(tmp_path, greet=GREET)
    (root / "greet.py").write_text(GREET)

    assert locate_function(root, "greet.py")[0] == root / "greet.py"


def test_hooks_are_found_in_their_own_folder_too(tmp_path: Path) -> None:
    root = package(tmp_path)
    (root / "hooks").mkdir()
    (root / "hooks" / "greet.py").write_text(GREET)

    assert locate_function(root, "greet.py", code=PackageCode(root, kind="hook")) == (root / "hooks" / "greet.py", ())
    assert codes(root, "greet.py") == [("error", "missing_tool_file", "tools[0].file")]


def test_the_shared_folder_beside_the_package_is_the_one_place_outside(tmp_path: Path) -> None:
    root = package(tmp_path)
    for folder in ("_shared/deep", "other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "greet.py").write_text(GREET)

    assert locate_function(root, "../_shared/deep/greet.py") == (tmp_path / "_shared" / "deep" / "greet.py", ())
    for outside in ("../other/greet.py", "../_shared/../other/greet.py", str(tmp_path / "other" / "greet.py")):
        assert codes(root, outside) == [("error", "leaves_package", "tools[0].file")]


def test_links_are_followed_before_asking_where_a_file_is(tmp_path: Path) -> None:
    root = package(tmp_path, greet=GREET)
    (tmp_path / "outside.py").write_text(GREET)
    (root / "tools" / "out.py").symlink_to(tmp_path / "outside.py")
    (root / "tools" / "in.py").symlink_to(root / "tools" / "greet.py")
    (root / "tools" / "loop.py").symlink_to(root / "tools" / "loop.py")

    assert codes(root, "out.py") == [("error", "leaves_package", "tools[0].file")]
    assert locate_function(root, "in.py") == (root / "tools" / "greet.py", ())
    assert codes(root, "loop.py")[0][0] == "error"


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "x" * 5000])
def test_what_no_file_can_be_called_is_a_finding(tmp_path: Path, name: str) -> None:
    assert codes(package(tmp_path), name) == [("error", "wrong_value", "tools[0].file")]


def test_a_folder_or_a_pipe_is_no_file(tmp_path: Path) -> None:
    root = package(tmp_path)
    os.mkfifo(root / "tools" / "pipe.py")

    for name in (".", "tools", "pipe.py"):
        assert codes(root, name) == [("error", "missing_tool_file", "tools[0].file")]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = 1\ndef greet(:\n", "line 2: "),
        ("def greet(): ...\x00", "null bytes"),
        ("x = " + "(" * 5000, "too many nested parentheses"),
        ("x = " + "-" * 100_000 + "1", "it is nested too deeply"),
        ("x = a" + ".b" * 100_000, "it is nested too deeply"),
        ("if a: pass\n" + "elif a: pass\n" * 20_000, "it is nested too deeply"),
        (GREET + "#" * MAX_CODE_BYTES, "it is larger than 1 MB"),
    ],
    ids=["syntax", "nul", "parentheses", "minus", "dots", "elif", "large"],
)
def test_a_file_that_cannot_be_parsed_is_a_finding(tmp_path: Path, source: str, fault: str) -> None:
    root = package(tmp_path, greet=source)

    _, [finding] = locate_function(root, "greet.py")

    assert (finding.level, finding.code, finding.path) == ("error", "broken_tool_file", "tools[0].file")
    assert fault in finding.message


def test_bytes_that_are_no_text_are_a_finding(tmp_path: Path) -> None:
    root = package(tmp_path)
    (root / "tools" / "greet.py").write_bytes(b"x = '\xff'\n")

    assert codes(root, "greet.py") == [("error", "broken_tool_file", "tools[0].file")]


@pytest.mark.parametrize(
    "source",
    [
        "def greet(): ...",
        "async def greet(): ...",
        "class greet: ...",
        "greet = print",
        "greet = partial(print, 1)",
        "greet = lambda: 1",
        "greet = None\ndef greet(): ...",
        "a, (greet, *b) = 1, (2,)",
        "greet: object = print",
        "from json import greet",
        "from json import hello as greet",
        "from json import *",
        "try:\n    from elsewhere import greet\nexcept ImportError:\n    def greet(): ...",
        "if True:\n    pass\nelse:\n    def greet(): ...",
        "with x:\n    def greet(): ...",
        "match 1:\n    case _:\n        def greet(): ...",
    ],
)
def test_what_the_module_defines_at_its_top_is_defined(tmp_path: Path, source: str) -> None:
    assert codes(package(tmp_path, greet=source), "greet.py") == []


@pytest.mark.parametrize(
    "source",
    [
        "",
        "def other(): ...",
        "def outer():\n    def greet(): ...",
        "class Outer:\n    def greet(self): ...",
        "greet: object",
        "x.greet = 1",
        "from json import other",
        "import json.greet",
        "greet = 3",
        "greet: object = 'x'",
        "greet = None",
        "greet = {}",
    ],
)
def test_what_it_defines_elsewhere_is_missing(tmp_path: Path, source: str) -> None:
    assert codes(package(tmp_path, greet=source), "greet.py") == [
        ("error", "missing_tool_function", "tools[0].function")
    ]


@pytest.mark.parametrize(
    ("source", "imports"),
    [
        ("import a.b, c as d\nfrom e.f import g", [("a.b", True), ("c", True), ("e.f", True)]),
        ("def f():\n    import a\nasync def g():\n    from b import c", [("a", False), ("b", False)]),
        ("class C:\n    import a\n    def f(self):\n        import b", [("a", True), ("b", False)]),
        ("def f():\n    import a\nimport a", [("a", True)]),
        ("if x:\n    import a\nelse:\n    import b", [("a", True), ("b", True)]),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", [("a", False), ("b", True)]),
        ("if typing.TYPE_CHECKING:\n    import a", [("a", False)]),
        ("if __name__ == '__main__':\n    import a", [("a", False)]),
        ("try:\n    import a\nexcept ImportError:\n    import b", [("b", False), ("a", False)]),
        ("try:\n    import a\nexcept (KeyError, ModuleNotFoundError):\n    pass", [("a", False)]),
        ("try:\n    import a\nexcept:\n    pass", [("a", False)]),
        ("try:\n    import a\nexcept KeyError:\n    pass\nfinally:\n    import b", [("a", True), ("b", True)]),
        ("with x:\n    import a\nfor y in z:\n    import b", [("a", True), ("b", True)]),
        ("match 1:\n    case 1:\n        import a", [("a", True)]),
        ("from . import a\nfrom .b import c\nfrom ..d import e", [(".a", True), (".b", True), ("..d", True)]),
        ("import importlib\nimportlib.import_module('a.b')", [("importlib", True), ("a.b", True, True)]),
        ("def f():\n    x = [import_module('a'), __import__('b')]", [("a", False, True), ("b", False)]),
        ("try:\n    importlib.import_module('a')\nexcept ImportError:\n    pass", [("a", False, True)]),
        ("importlib.import_module(name)\nimport_module('.a', 'b')\n__import__('')\nimport_module()", []),
        ("from workflows import tools, X", [("workflows.tools", True), ("workflows.X", True)]),
    ],
)
def test_imports_are_known_with_whether_loading_needs_them(tmp_path: Path, source: str, imports: list[Any]) -> None:
    found = [replace(each, names=(), names_at_load=frozenset()) for each in parse_module(tmp_path, source).imports]
    assert sorted(found, key=str) == sorted((Import(*each) for each in imports), key=str)


def test_an_import_at_load_time_blocks_and_one_in_a_function_warns(tmp_path: Path) -> None:
    root = package(
        tmp_path,
        load=f"import logs.a\n{GREET}",
        call="def greet():\n    import logs.a, logs.b, core\n",
        many="def greet():\n" + "".join(f"    import logs.m{number}\n" for number in range(7)),
    )

    _, [at_load] = locate_function(root, "load.py")
    _, [at_call] = locate_function(root, "call.py")
    _, [many] = locate_function(root, "many.py")

    assert (at_load.level, at_load.code, at_load.path) == ("warning", "foreign_import", "tools[0].file")
    assert at_load.is_blocking
    assert not at_call.is_blocking
    assert "load.py imports logs.a of another runtime" in at_load.message
    assert "call.py imports logs.a, logs.b, core of another runtime" in at_call.message
    assert "logs.m4 and 2 more" in many.message


def test_a_foreign_part_of_a_file_is_reported_once(tmp_path: Path) -> None:
    root = package(tmp_path, greet=f"import logs\n{GREET}")
    code = PackageCode(root, kind="tool")

    findings_of_calls = [locate_function(root, "greet.py", code=code)[1] for _ in range(3)]

    assert [len(finding) for finding in findings_of_calls] == [1, 0, 0]


def test_a_broken_file_is_reported_for_each_tool_that_names_it(tmp_path: Path) -> None:
    root = package(tmp_path, greet="def greet(:")
    code = PackageCode(root, kind="tool")

    assert [len(locate_function(root, "greet.py", code=code)[1]) for _ in range(2)] == [1, 1]


def test_code_is_never_run(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    root = package(tmp_path, greet=f"open({str(touched)!r}, 'w').close()\n{GREET}")

    assert locate_function(root, "greet.py")[0] is not None
    assert not touched.exists()


def test_an_edit_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text("def a(): ...")
    stat = file.stat()
    assert read_code(file).defines("a")

    file.write_text("def b(): ...")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert read_code(file).defines("b")
    assert not read_code(file).defines("a")


def test_odd_style_is_no_fault_and_no_warning(tmp_path: Path) -> None:
    """Warnings are errors in this suite."""
    assert parse_module(tmp_path, "x = '\\d'\ny = 1 is 1\n").fault is None


def test_the_same_content_is_parsed_once_also_from_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed_code, "_code_cache", parsed_code._CodeCache(max_files=3))
    files = [tmp_path / f"{number}.py" for number in range(8)]
    for number, file in enumerate(files):
        file.write_text(f"def f{number % 2}(): ...")

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(read_code, files * 5))

    assert all(code.defines(f"f{number % 2}") for number, code in enumerate(results))
    assert len({id(code) for code in results}) == 2


def test_only_the_files_used_last_are_kept() -> None:
    cache = parsed_code._CodeCache(max_files=2)

    first = cache.get(b"a = 1")
    cache.get(b"b = 1")
    assert cache.get(b"a = 1") is first
    cache.get(b"c = 1")

    assert cache.get(b"a = 1") is first
    assert len(cache._code_by_digest) == 2


def test_a_file_that_vanished_is_a_fault(tmp_path: Path) -> None:
    assert read_code(tmp_path / "gone.py").fault == "No such file or directory"


@pytest.mark.parametrize(
    ("source", "is_plain"),
    [
        ("def t(): ...", True),
        ("async def t(a, /, b: str = '', *more, c: int | None = None): ...", True),
        ("def t(a: Annotated[Optional[list[str]], 'context_variables']): ...", True),
        ("def t(a: typing.Literal['ContextVariables'], b: 'str'): ...", True),
        ("if True:\n    def t(a: dict[str, Any]): ...", True),
        (f"def t(a: {' | '.join(['int'] * 2_000)}): ...", True),
        (f"def t(a: Context | {' | '.join(['int'] * 2_000)}): ...", False),
        ("def t(context_variables): ...", False),
        ("def t(a, *, context_variables=None): ...", False),
        ("def t(a, **runtime): ...", False),
        ("def t(a: ContextVariables): ...", False),
        ("def t(a: 'Optional[ContextVariables]'): ...", False),
        ("def t(a: Optional['Context']): ...", False),
        ("def t(a: Context | None): ...", False),
        ("def t(a: Annotated[Context, 'the context']): ...", False),
        ("def t(a: make()): ...", False),
        ("@tool\ndef t(): ...", False),
        ("def t(): ...\nt = tool(t)", False),
        ("def t(): ...\nfrom other import t", False),
        ("def t(): ...\nfrom other import *", False),
        ("try:\n    from other import t\nexcept ImportError:\n    def t(): ...", False),
        ("class A:\n    def t(): ...", False),
        ("t = print", False),
        ("def t(:", False),
    ],
)
def test_a_plain_function_is_never_given_the_context(tmp_path: Path, source: str, is_plain: bool) -> None:
    file = tmp_path / "t.py"
    file.write_text(source, encoding="utf-8")

    assert ("t" in read_code(file).plain_functions) is is_plain
