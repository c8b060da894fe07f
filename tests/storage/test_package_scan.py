"""A scan of the whole package: nothing in it can run data as code."""

import ast
from pathlib import Path

import pytest

import earl

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "yaml.load"}
CALLS |= {"os.system", "os.popen"}
METHODS = {"extractall"}
FLAGS = {("allow_pickle", True), ("shell", True), ("weights_only", False)}
# CIFAR comes as pickles: one file reads them, with an unpickler that admits nothing but arrays.
MAY_IMPORT_PICKLE = {"data/sets/cifar_pickle.py"}


def dangers(source):
    """Yield what in a source file could run data as code or write where an archive says."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            full = [node.module or ""] + [f"{node.module}.{a.name}" for a in node.names]
            yield from (n for n in full if n.split(".")[0] in MODULES or n in CALLS)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in CALLS or called.split(".")[-1] in METHODS:
                yield called
            flags = ((k.arg, getattr(k.value, "value", None)) for k in node.keywords)
            yield from (name for name, value in flags if (name, value) in FLAGS)


def test_nothing_in_the_package_can_run_data_as_code():
    package = Path(earl.__file__).parent
    found = {
        (path.relative_to(package).as_posix(), danger)
        for path in package.rglob("*.py")
        for danger in dangers(path.read_text(encoding="utf-8"))
    }
    unpacking = {("data/download.py", f"{x}.extractall") for x in ("tar", "opened")}
    assert found == {(path, "pickle") for path in MAY_IMPORT_PICKLE} | unpacking  # with filters


@pytest.mark.parametrize(
    "source",
    [
        *(
            "import pickle",
            "from pickle import loads",
            "import dill as d",
            "from torch import load",
        ),
        *("torch.load(f)", "torch.save(x, f)", "eval('1')", "exec(s)", "archive.extractall(p)"),
        *("np.load(f, allow_pickle=True)", "run(c, shell=True)", "from marshal import loads"),
    ],
)
def test_the_scan_sees_each_danger(source):
    assert list(dangers(source))
    assert not list(dangers("net.eval(); re.compile('a'); np.load(f, allow_pickle=False)"))
