"""Imports point down only: what a module may know of is decided by the layer it lives in."""

import ast
import re
from pathlib import Path

import earl

SOURCE = Path(earl.__file__).parent
TESTS = Path(__file__).parent

# From the bottom up. A folder may import from its own level and from those below it.
ORDER = [
    {"errors", "randomness"},
    {"storage"},
    {"nn", "data"},
    {"learning"},
    {"methods"},
    {"evaluation"},
    {"experiments", "estimator"},
    {"report", "bench", "service"},
    {"cli", "crashtest", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
LEVEL["earl"] = 0  # the package itself, for its version
NEVER_MEET = [("nn", "data"), ("data", "nn"), ("methods", "data"), ("report", "learning")]


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return "earl" if parts == ("__init__",) else parts[0]


class WithoutTypes(ast.NodeTransformer):
    """Drops what only type checkers see."""

    def visit_If(self, node: ast.If) -> ast.If | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


def imports_of(tree: ast.AST) -> set[str]:
    """Return the first parts of all earl modules that a file imports when it runs."""
    found = set()
    for node in ast.walk(WithoutTypes().visit(tree)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "earl":
            names = [f"earl.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        parts = [name.split(".") for name in names if name.split(".")[0] == "earl"]
        found |= {part[1] if len(part) > 1 else "earl" for part in parts}
    return found


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, kinds)
    ]


def test_the_map_for_contributors_is_this_list() -> None:
    text = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", text, re.MULTILINE)
    named = [{name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", row)} for row in rows]
    assert named == ORDER


def test_the_tests_lie_in_the_same_folders() -> None:
    folders = {path.name for path in TESTS.iterdir() if list(path.glob("test_*.py"))}
    assert folders == {path.name for path in SOURCE.iterdir() if list(path.glob("*.py"))}


def test_no_file_is_longer_than_300_lines() -> None:
    every = [*files(), *TESTS.rglob("*.py")]
    assert {p.name for p in every if len(p.read_text("utf-8").splitlines()) > 300} == set()


def test_no_function_is_longer_than_40_lines() -> None:
    long = {
        f"{path.name}: {f.name}"
        for path in files()
        for f in functions(path)
        if (f.end_lineno or 0) - f.lineno >= 40
    }
    assert long == set()


def test_only_commands_and_methods_have_more_than_eight_parameters() -> None:
    many = {
        f"{path.relative_to(SOURCE).parts[0]}: {f.name}"
        for path in files()
        for f in functions(path)
        if len(
            {a.arg for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)}
            - {"self", "ctx"}
        )
        > 8
    }
    assert {name for name in many if not name.startswith("cli:")} <= {
        "methods: __init__",
        "estimator: __init__",  # what its users may choose
    }


def test_every_module_has_its_layer() -> None:
    assert {module_of(path) for path in files()} <= set(LEVEL)


def test_no_import_points_up() -> None:
    upward = []
    for path in files():
        here = module_of(path)
        for there in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            if LEVEL[there] > LEVEL[here] or (here, there) in NEVER_MEET:
                upward.append(f"{path.relative_to(SOURCE)} imports {there}")
    assert upward == []


def test_only_the_faces_read_the_environment() -> None:
    """Nothing below chooses a path or reads a variable: loaders are handed theirs by `places`.

    `onednn` looks at what another library reads by itself, `torchrun` and `engines` at what those
    that start processes tell them.
    """
    readers = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv"):
                readers.add(path)
    below = {path.stem for path in readers if LEVEL[module_of(path)] < LEVEL["report"]}
    assert below <= {"places", "onednn", "torchrun", "engines"}, below


def test_the_library_prints_nothing() -> None:
    printing = [
        path.name
        for path in files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]
    assert printing == []
