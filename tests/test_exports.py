"""The public names are those of `earl.__all__`, and importing them costs nothing until used."""

import ast
import json
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import earl
import earl.learning
import earl.nn
from fresh import python


def test_every_public_name_exists() -> None:
    for name in earl.__all__:
        assert getattr(earl, name) is not None
    assert set(earl.__all__) == set(earl._WHERE)
    assert set(earl.__all__) <= set(dir(earl))


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(earl.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == earl._WHERE


def test_the_doors_for_authors_of_methods_lead_to_what_they_name() -> None:
    for door in (earl.learning, earl.nn):
        assert len(set(door.__all__)) == len(door.__all__)
        for name in door.__all__:
            assert getattr(door, name).__class__ is not ModuleType


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(earl, "Earl")


SCRIPT = """
import contextlib, io, json, sys
import earl
heavy = {"torch", "numpy", "sklearn", "matplotlib", "plotly", "PIL", "pydantic", "rich"}
found = {"import earl": sorted(heavy & set(sys.modules))}
from earl.cli.app import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["earl", *line]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            assert not end.code, line
    found[" ".join(line)] = sorted(heavy & set(sys.modules))
print(json.dumps(found))
"""


def test_help_lists_and_commands_that_read_runs_import_nothing_heavy(few_runs, tmp_path) -> None:
    runs, page, folder = str(few_runs), str(tmp_path / "page.html"), str(tmp_path / "csv")
    lines = [["--help"], ["list"], ["list", "methods"], ["run", "--help"], ["table", runs]]
    lines += [["table", runs, "--where", "method=er", "--format", "csv"]]
    lines += [["export", "csv", runs, "-o", folder]]
    lines += [["report", runs, "-o", page]] if find_spec("plotly") else []
    found = json.loads(python(SCRIPT, json.dumps(lines)))
    assert len(found) == 1 + len(lines) and not any(found.values()), found
