"""The public names are those of `earl.__all__`, and importing them costs nothing until used."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import earl
import earl.learning
import earl.nn


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


def test_import_and_help_need_no_torch() -> None:
    heavy = {"torch", "numpy", "sklearn", "matplotlib", "PIL", "pydantic", "rich"}
    for words in ([], ["--help"], ["list"], ["run", "--help"]):
        script = (
            "import sys, earl\n"
            f"sys.argv = ['earl', *{words!r}]\n"
            "if sys.argv[1:]:\n"
            "    from earl.cli.app import main\n"
            "    try: main()\n"
            "    except SystemExit as end: assert not end.code\n"
            f"print('HEAVY', sorted({heavy!r} & set(sys.modules)))\n"
        )
        out = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        assert out.splitlines()[-1] == "HEAVY []", (words, out)
