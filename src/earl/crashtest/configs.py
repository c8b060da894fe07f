"""D3: generated configurations are refused by name; nothing is imported or allocated for them."""

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from earl.crashtest.bombs import memory_of
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child
from earl.crashtest.sabotage import put
from earl.crashtest.small import experiment, of_images, ready
from earl.errors import EarlError
from earl.estimator import EARLClassifier
from earl.experiments import learners
from earl.experiments.experiment import Experiment
from earl.experiments.prepare import rehearse
from earl.experiments.sweeps.sweepfile import SweepFile

MOST = 64.0  # MB before a configuration is refused
HUGE = (10**9, 10**12, 2**63)
SIZES = ("width", "d", "hidden", "memory_size", "batch_size", "pairs_per_class")
WRONG: tuple[Any, ...] = (math.nan, math.inf, -1, "x", "", None, [], {}, [1], {"a": 1}, b"x", 1.5)
FOREIGN = ("_target_", "__class__", "__reduce__", "import", "exec", "lr\n", "../lr", "LR", "dd", "")
PATHS = (
    "../../etc/passwd",
    "/etc/passwd",
    "file:../../x",
    "~root/x",
    "\0",
    "a\nb",
    "csv:/dev/zero",
)
GRID = 'title = "x"\n[[grid]]\nmethod = "er"\ndataset = "shapes"\nstream = "disjoint"\n'
TEXTS = (
    "!!python/object/apply:os.system ['touch harm']",
    "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]",
    'title = "x"\n' + "a." * 3000 + "b = 1",
    'title = "x"\ngrid = ' + "[" * 3000 + "]" * 3000,
    '{"_target_": "os.system"}',
    "\x00" * 100,
    GRID + '_target_ = "os.system"',
    GRID.replace('"er"', '"_target_"'),
    GRID + "seed = 1e400",
    GRID + "settings = {width = 1000000000000000000000}",
)


def configs(trial: Trial) -> Found:
    """Give generated configurations to all that reads some; the sabotage looks at no size."""
    ready()
    if trial.sabotage:
        put(learners, "check_sizes", lambda *words, **named: None)
    answer = ask_child(lambda: give_all(trial))
    found = Found(answer["figures"], answer["wrong"]) if answer else trial.found(configs=0)
    found.expect(found.figures["configs"] == trial.count, "the process that reads them has died")
    return found


def give_all(trial: Trial) -> dict[str, Any]:
    """Give every configuration to what reads it; return the figures and what is wrong."""
    rng, wrong = trial.rng, []
    rehearse(experiment())  # imports what it needs
    figures = {"configs": 0, "refused": 0, "allowed": 0, "imports": 0, "mb": 0.0}
    before = set(sys.modules)
    for _ in range(trial.count):
        name, may, act = generated(rng, trial.place)
        figures["configs"] += 1
        held, allowed = memory_of("self"), False
        try:
            act()
            allowed = True
            figures["allowed"] += 1
            wrong += [] if may else [f"{name} was allowed"]
        except EarlError as refusal:
            figures["refused"] += 1
            wrong += [f"{name}: {refusal}"] if "\n" in str(refusal) else []
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:100]}")
        more = 0.0 if allowed else round(memory_of("self") - held, 1)
        figures["mb"] = max(figures["mb"], more)
        wrong += [f"{name}: {more} MB were allocated"] if more >= MOST else []
    ours = {"earl", *sys.stdlib_module_names}  # a method is imported when it is named
    new = [name for name in sorted(set(sys.modules) - before) if name.split(".")[0] not in ours]
    figures["imports"] = len(new)
    wrong += [f"imported: {new[:5]}"] if new else []
    return {"figures": figures, "wrong": wrong}


Config = tuple[str, bool, Callable[[], object]]  # its name, whether it may be allowed, the reading


def generated(rng: random.Random, place: Path) -> Config:
    """Return one configuration."""
    return rng.choice([setting, size, foreign, field, parameter, text])(rng, place)


def setting(rng: random.Random, place: Path) -> Config:
    """A setting of a run with a value of any kind; some may be right."""
    name, value = rng.choice(list(experiment().values())), rng.choice([*WRONG, *HUGE, *PATHS])
    return f"{name} = {value!r}"[:80], True, lambda: rehearse(experiment(**{name: value}))


def size(rng: random.Random, place: Path) -> Config:
    """A size that no machine has the memory for."""
    given: dict[str, Any] = {rng.choice(SIZES): rng.choice(HUGE)}
    return f"{given}", False, lambda: rehearse(experiment(**given))


def foreign(rng: random.Random, place: Path) -> Config:
    """A setting that does not exist."""
    name = rng.choice(FOREIGN) + rng.choice(["", "x", "\u202e"])
    given: dict[str, Any] = {name: 1}
    return f"a setting {name!r}", False, lambda: rehearse(experiment(**given))


def field(rng: random.Random, place: Path) -> Config:
    """A field of an experiment that is something else."""
    name = rng.choice(["method", "dataset", "stream", "seed"])
    value = rng.choice([*PATHS, *FOREIGN, -1, 1.5, True])
    fields = experiment().as_dict() | {name: value}
    a_file = name == "dataset" and str(value).startswith("csv:")  # looked for when it is loaded
    return f"{name} = {value!r}", a_file, lambda: rehearse(Experiment.from_dict(fields))


def parameter(rng: random.Random, place: Path) -> Config:
    """A parameter of an estimator with a value of any kind."""
    known = of_images().get_params()
    name, value = rng.choice([*known, "_target_"]), rng.choice([*WRONG, *HUGE, *PATHS])

    def act() -> None:
        if name not in known:
            EARLClassifier().set_params(**{name: value})
        else:
            EARLClassifier(**(known | {name: value}))._current()

    return f"{name} = {value!r}"[:80], name in known, act


def text(rng: random.Random, place: Path) -> Config:
    """A sweep file that is none."""
    path, content = place / "sweep.toml", rng.choice(TEXTS)
    cut = rng.randrange(len(content)) if rng.random() < 0.3 else len(content)
    path.write_text(content[:cut], encoding="utf-8")
    return f"the file {content[:cut][:60]!r}", False, lambda: SweepFile.open(path)
