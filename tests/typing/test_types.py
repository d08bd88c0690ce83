"""Type checkers find a useful type for every public name: mypy and Pyright read `public_api.py`."""

import ast
import dataclasses
import inspect
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outcrop as oc
from outcrop.arrays.attached import Attachment
from outcrop.loops import Loops
from outcrop.program.report import Traffic

FILE = Path(__file__).with_name("public_api.py")
TREE = ast.parse(FILE.read_text())
PACKAGES = Path(oc.__file__).parents[1]


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "outcrop"


MODULES = {"oc": oc} | {
    f"oc.{name}": getattr(oc, name) for name in oc.__all__ if inspect.ismodule(getattr(oc, name))
}

CLASSES = {
    one
    for module in MODULES.values()
    for name in module.__all__
    if inspect.isclass(one := getattr(module, name)) and _is_ours(one)
} | {Attachment, Loops, Traffic}
"""Those that are public, and those of which functions give objects."""

UNTYPED = {"A.item(3, 4)", "A.tolist()", "A.to_dask()", "A.fill_value", "round(A, 1)"}
"""Whose type depends on the elements, or is another library's."""

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.LShift: "lshift",
    ast.MatMult: "matmul",
    ast.Mod: "mod",
    ast.Mult: "mul",
    ast.Pow: "pow",
    ast.RShift: "rshift",
    ast.Sub: "sub",
    ast.Eq: "eq",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.NotEq: "ne",
    ast.Invert: "invert",
    ast.UAdd: "pos",
    ast.USub: "neg",
}

BUILTINS = ("abs", "bool", "complex", "divmod", "float", "format", "hash", "int", "iter", "len")

# Nobody calls them by name: the interpreter does, the copy and pickle modules, and NumPy.
UNCALLED = {
    "__array_function__",
    "__array_ufunc__",
    "__copy__",
    "__deepcopy__",
    "__dlpack__",
    "__exit__",
    "__getattr__",
    "__init__",
    "__reduce__",
    "__repr__",
}


# -- every name is in the file ---------------------------------------------------------------------


def _asserted() -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(TREE):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "assert_type":
            yield node.args[0], ast.unparse(node.args[1])


def _paths(tree: ast.AST) -> set[str]:
    """All that is named with dots, such as ``oc.linalg.solve``."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_every_public_name_has_its_type_asserted() -> None:
    asserted = {path for expression, _ in _asserted() for path in _paths(expression)}
    written = _paths(TREE) | {"oc.Array"}
    for where, module in MODULES.items():
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.ismodule(one):
                continue
            # What classes are of is said by their members.
            is_class = inspect.isclass(one) and one in CLASSES
            assert f"{where}.{name}" in (written if is_class else asserted)


def _defined(base: type) -> set[str]:
    """The public members that a class defines, and the attributes that its objects have."""
    found = set(vars(base))
    if dataclasses.is_dataclass(base):
        found |= {field.name for field in dataclasses.fields(base)}
    elif "__init__" in vars(base):
        tree = ast.parse(textwrap.dedent(inspect.getsource(base.__init__)))
        found |= {path.removeprefix("self.") for path in _paths(tree) if _is_own(path)}
    return {name for name in found if not name.startswith("_")}


def _is_own(path: str) -> bool:
    return path.startswith("self.") and path.count(".") == 1


def _used() -> dict[type, set[str]]:
    """The members of classes that functions in the file use of their arguments, by annotations."""
    names = {"Array": oc.Array, "Loops": Loops, "Traffic": Traffic}
    used: dict[type, set[str]] = {kind: set() for kind in CLASSES}
    for function in TREE.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        kinds = {}
        for argument in function.args.args:
            assert argument.annotation is not None
            text = ast.unparse(argument.annotation)
            kinds[argument.arg] = names.get(text) or _found(text)
        kinds["attached"] = Attachment
        for path in _paths(function):
            owner, _, member = path.partition(".")
            kind = kinds.get(owner)
            if kind in used:
                used[kind].add(member)
    return used


def _found(text: str) -> Any:
    found: Any = oc
    for part in text.split(".")[1:] if text.startswith("oc.") else ():
        found = getattr(found, part)
    return found if inspect.isclass(found) else None


def test_every_public_member_is_used() -> None:
    used = _used()
    bases = {base for kind in CLASSES for base in kind.__mro__ if _is_ours(base)}
    for base in bases:
        shown = set().union(*(used[kind] for kind in CLASSES if issubclass(kind, base)))
        assert _defined(base) <= shown, base


def _operations() -> Iterator[str]:
    """The special methods of arrays that operators in the file call."""
    for node in ast.walk(TREE):
        if isinstance(node, ast.BinOp):
            name = OPERATORS[type(node.op)]
            reflected = not isinstance(node.left, ast.Name) and isinstance(node.right, ast.Name)
            yield f"__{'r' if reflected else ''}{name}__"
        elif isinstance(node, ast.AugAssign):
            yield f"__i{OPERATORS[type(node.op)]}__"
        elif isinstance(node, ast.Compare):
            is_in = isinstance(node.ops[0], ast.In)
            yield "__contains__" if is_in else f"__{OPERATORS.get(type(node.ops[0]), 'is')}__"
        elif isinstance(node, ast.UnaryOp):
            yield f"__{OPERATORS[type(node.op)]}__"
        elif isinstance(node, ast.Subscript):
            yield "__setitem__" if isinstance(node.ctx, ast.Store) else "__getitem__"
            if not isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Name):
                yield "__index__"
        elif isinstance(node, ast.With):
            yield "__enter__"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            reflected = called == "divmod" and not isinstance(node.args[0], ast.Name)
            if called in (*BUILTINS, "round"):
                yield f"__{'r' if reflected else ''}{called}__"
            elif called == "np.asarray":
                yield "__array__"
            else:
                yield called.rpartition(".")[2]


def test_every_operator_is_used() -> None:
    used = set(_operations())
    special = {
        name
        for base in oc.Array.__mro__[:-1]
        for name, own in vars(base).items()
        if name.startswith("__") and (callable(own) or name == "__hash__")
    }
    assert special - UNCALLED <= used
    assert not UNCALLED & used


def test_types_say_something() -> None:
    for expression, kind in _asserted():
        if kind in ("Any", "object"):
            assert ast.unparse(expression) in UNTYPED
    assert {ast.unparse(one) for one, kind in _asserted() if kind == "Any"} == UNTYPED


# -- checkers agree --------------------------------------------------------------------------------


WRONG = ["oc.concatenat", "oc.linalg.choleski", "oc.random.randn", "oc.zeros(3).tranpose"]
"""Names that there are not, which a module's or an array's `__getattr__` could hide."""


def _wrong(directory: Path) -> Path:
    file = directory / "wrong.py"
    file.write_text("import outcrop as oc\n" + "".join(f"print({name})\n" for name in WRONG))
    return file


def test_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    files = [str(FILE), str(_wrong(tmp_path))]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        env={"MYPYPATH": str(PACKAGES), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line for line in lines if "wrong.py" not in line] == []
    assert [line.partition("[")[2] for line in lines] == ["attr-defined]"] * len(WRONG)


def test_pyright(tmp_path: Path) -> None:
    beside = Path(sys.executable).parent
    pyright = shutil.which("pyright", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if pyright is None:
        pytest.skip("Pyright is not installed")
    # It reads what is below its configuration.
    shutil.copy(FILE, tmp_path)
    wrong = _wrong(tmp_path)
    options = {
        "extraPaths": [str(PACKAGES)],
        "typeCheckingMode": "strict",
        # Matrices have names of one letter, and change in place.
        "reportConstantRedefinition": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
    done = subprocess.run(
        [pyright, "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 2
    told = [(Path(one["file"]).name, one) for one in found["generalDiagnostics"]]
    assert [one for name, one in told if name != wrong.name] == []
    rules = [one["rule"] for _, one in told]
    assert rules.count("reportAttributeAccessIssue") == len(WRONG)
