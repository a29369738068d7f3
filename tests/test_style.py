"""Files and functions stay short enough to read: measured, not remembered.

Lines are physical ones, blanks, comments and docstrings included. A function's length begins at `def` and includes the
functions inside it. Tests, generated code and tools are not measured.
"""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 500
LONGEST_FUNCTION = 80
USUAL_FUNCTION = 35
USUAL_SHARE = 0.95

# What was too long when it was first measured, with its length. Entries may shrink or go, never grow or come.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}


class Function(NamedTuple):
    """A function, named `path:qualified.name`, and its length in lines."""

    name: str
    length: int


def source_files() -> list[Path]:
    """Return the Python files of core and of every plugin."""
    folders = [ROOT / "core/tocsin"]
    for kind in ("datasources", "writers", "plugins"):
        folders += sorted(path for path in ROOT.glob(f"{kind}/*/tocsin_*") if path.is_dir())
    files = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return [path for path in files if not path.name.endswith("_pb2.py")]


def functions(path: Path) -> list[Function]:
    """Return the functions of a file, nested ones included."""
    found = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}" if prefix else child.name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                assert child.end_lineno is not None
                found.append(Function(f"{relative(path)}:{name}", child.end_lineno - child.lineno + 1))
            visit(child, name)

    visit(ast.parse(path.read_bytes()), "")
    return found


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def files() -> list[Path]:
    found = source_files()
    assert ROOT / "core/tocsin/__init__.py" in found
    return found


@pytest.fixture(scope="module")
def measured(files: list[Path]) -> list[Function]:
    return [function for path in files for function in functions(path)]


def check(lengths: dict[str, int], limit: int, exceptions: dict[str, int]) -> None:
    """Compare with the limit and the list of exceptions, which must be exact."""
    for name, allowed in exceptions.items():
        length = lengths.get(name, 0)
        assert length > limit, f"{name} has {length} lines: take it off the list of exceptions"
        assert length == allowed, f"{name} has {length} lines, the list says {allowed}: it may only shrink"
    too_long = {name: length for name, length in lengths.items() if length > limit and name not in exceptions}
    assert not too_long, f"longer than {limit} lines: {too_long}"


def test_files_are_short(files: list[Path]) -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in files}
    check(lengths, LONGEST_FILE, LONG_FILES)


def test_no_function_is_long(measured: list[Function]) -> None:
    check({function.name: function.length for function in measured}, LONGEST_FUNCTION, LONG_FUNCTIONS)


def test_nearly_all_functions_fit_on_a_screen(measured: list[Function]) -> None:
    longer = sorted((f for f in measured if f.length > USUAL_FUNCTION), key=lambda f: -f.length)
    share = 1 - len(longer) / len(measured)
    text = "\n".join(f"{function.length} {function.name}" for function in longer)
    assert share >= USUAL_SHARE, f"only {share:.1%} of functions have at most {USUAL_FUNCTION} lines:\n{text}"


def test_no_module_is_a_drawer_for_odds_and_ends(files: list[Path]) -> None:
    words = {"utils", "util", "helpers", "helper", "misc", "common"}
    drawers = [relative(path) for path in files if words & set(path.stem.strip("_").split("_"))]
    assert not drawers, f"a module is named after what it knows, not {drawers}"


def test_no_work_is_put_off_in_a_comment(files: list[Path]) -> None:
    words = ("TODO", "FIXME", "XXX:", "HACK:")
    found = [
        f"{relative(path)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(word in line for word in words)
    ]
    assert not found, f"finish it or write an issue: {found}"


def test_the_measure_counts_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = ["def b(self):", "    'Doc.'", "", "    def c():", "        pass", "    return c"]
    source = "\n".join(["class A:", "    @property", *(f"    {line}" for line in method)])
    (tmp_path / "x.py").write_text(source)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert functions(tmp_path / "x.py") == [Function("x.py:A.b", 6), Function("x.py:A.b.c", 2)]


@pytest.mark.parametrize(
    ("lengths", "exceptions", "message"),
    [
        ({"a": 81}, {}, "longer than 80 lines: {'a': 81}"),
        ({"a": 80}, {"a": 90}, "take it off"),
        ({}, {"a": 90}, "take it off"),
        ({"a": 91}, {"a": 90}, "may only shrink"),
        ({"a": 89}, {"a": 90}, "the list says 90"),
    ],
)
def test_exceptions_must_be_exact(lengths: dict[str, int], exceptions: dict[str, int], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(lengths, 80, exceptions)
