"""Rows about what is not learning: preparing data, starting the command line, reading results."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from pathlib import Path

import numpy as np
from PIL import Image

from earl.bench.measured import Measured, ratio_of
from earl.bench.timing import Effort, Thing, Times, once, take_turns
from earl.data.sets.cifar import CIFAR10, PIXELS, cifar10
from earl.data.source import Source
from earl.evaluation.history import read_lines
from earl.experiments.experiment import Experiment
from earl.experiments.loading import facts_of_data
from earl.experiments.machine import workers
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.seals import seal, summary_text

PICTURES = 2000  # different pictures; they are repeated
RECORDS = 10_000  # in each of the six files of CIFAR-10
NAMES = [f"class {n}" for n in range(10)]
RUNS = 200  # in the folder from which a table is made
RECORDS_OF_A_RUN = ("experiment.json", "summary.json")


def data(effort: Effort) -> Iterator[Measured]:
    """Time the preparation of CIFAR-10 from parquet beside Pillow's bare decoding of its bytes.

    Without pyarrow there is nothing to measure.
    """
    if find_spec("pyarrow") is None:
        return
    pictures = [picture(n) for n in range(PICTURES)]
    n = 30_000 if effort.quick else 60_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for split, images in {"train": n * 5 // 6, "test": n - n * 5 // 6}.items():
            write_parquet(root / "cifar10" / f"{split}-00000-of-00001.parquet", pictures, images)
        few = Effort(seconds=0, turns=1 if effort.quick else 3)
        things = {"bare": decoding(pictures), "prepare": preparing(root, n)}
        times = take_turns(things, few)
    yield ratio_of(f"{n:,} JPEGs, CPU time ÷ Pillow's", times, "prepare", "bare", target=2.5)


def picture(n: int) -> bytes:
    """Return a JPEG of 32 pixels: a colour gradient under noise, which takes as long as a photo."""
    noise = np.random.default_rng(n).integers(0, 64, (32, 32, 3))
    ramp = np.tile(np.linspace(0, 190, 32), (32, 1))
    pixels = noise + np.stack([ramp, ramp.T, np.full((32, 32), n % 190)], axis=2)
    file = BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def write_parquet(path: Path, pictures: list[bytes], images: int) -> None:
    """Write images and labels as Hugging Face does; the pictures are repeated."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    path.parent.mkdir(exist_ok=True)
    rows = [{"bytes": pictures[n % len(pictures)], "path": f"{n}.jpg"} for n in range(images)]
    labels = [n % len(NAMES) for n in range(images)]
    write_table(pa.table({"img": rows, "label": labels}), path, row_group_size=1000)


def decoding(pictures: list[bytes]) -> Thing:
    """Return a function that only decodes pictures with Pillow, on one core."""

    def decode() -> float:
        for data in pictures:
            with Image.open(BytesIO(data)) as image:
                image.load()
        return len(pictures)

    return decode


def preparing(root: Path, images: int) -> Thing:
    """Return a function that prepares the data set from nothing, with the real loader."""
    fresh = count()

    def prepare() -> float:
        cifar10(Source(root=root, cache=root / f"decoded-{next(fresh)}", workers=workers()))
        return images

    return prepare


def opened(effort: Effort) -> Iterator[Measured]:
    """Time what a run waits for at its start: open a prepared CIFAR-10, compare every hash.

    Its records are noise, in its authors' layout; all of it comes through the real loader.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_binary(root / CIFAR10.binary)
        few = Effort(seconds=0, turns=3 if effort.quick else 7)

        @once
        def open_all() -> None:
            facts_of_data(cifar10(Source(root=root, cache=root / "decoded", workers=workers())))

        times = take_turns({"open": open_all}, few, clock=time.perf_counter)
    case = f"{6 * RECORDS:,} images of 32 px, prepared before"
    yield Measured(case=case, value=times.median("open"), unit="s", target=2.0)


def write_binary(folder: Path) -> None:
    """Write records of noise in the layout of CIFAR-10's binary version."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for name in (*CIFAR10.binary_train, CIFAR10.binary_test):
        records = generator.integers(0, 256, (RECORDS, 1 + PIXELS), np.uint8)
        records[:, 0] = np.arange(RECORDS) % len(NAMES)
        records.tofile(folder / name)
    names = "\n".join(f"class-{n}" for n in range(len(NAMES)))
    (folder / CIFAR10.binary_names).write_text(names, encoding="utf-8")


def start(effort: Effort) -> Iterator[Measured]:
    """Time processes that print the help and the list beside one that does nothing."""
    python = [sys.executable, "-c", "pass"]
    commands = {"earl --help": ["--help"], "earl list": ["list"]}
    things = {name: running([*COMMAND, *words]) for name, words in commands.items()}
    things["python -c pass"] = running(python)
    times = take_turns(things, effort, clock=time.perf_counter)
    for name in commands:
        yield ratio_of(f"{name} ÷ python -c pass", times, name, "python -c pass", target=12.0)
    heavy = sum(imports_torch(words) for words in commands.values())
    yield Measured(case="commands of these that import torch", value=heavy, unit="", target=0)


def table(effort: Effort) -> Iterator[Measured]:
    """Time the commands that read a folder of many runs beside `earl list`, which reads nothing.

    A figure is drawn by matplotlib, whose import alone takes longer than all else: it is timed by
    itself, and what `earl figure` takes beyond it has the target.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder) / "runs", RUNS)
        readers = reading(folder)
        things = {name: running([*COMMAND, *words]) for name, words in readers.items()}
        things |= {"earl list": running([*COMMAND, "list"]), DRAWING: running(MATPLOTLIB)}
        times = take_turns(things, effort, clock=time_of_children)
        heavy = sum(imports_torch(words) for words in readers.values())
    beyond = [a - b for a, b in zip(times.seconds[FIGURE], times.seconds[DRAWING], strict=True)]
    times = Times({**times.seconds, f"{FIGURE} − {DRAWING}": beyond})
    for name in (*readers, DRAWING, f"{FIGURE} − {DRAWING}"):
        case = f"{name} ÷ earl list" if name == DRAWING else f"{name} on {RUNS} runs ÷ earl list"
        target = None if name in (FIGURE, DRAWING) else 4.0 if DRAWING in name else 3.0
        yield ratio_of(case, times, name, "earl list", target=target)
    yield Measured(case="commands of these that import torch", value=heavy, unit="", target=0)


FIGURE, DRAWING = "earl figure curves", "import matplotlib"
WHAT_DRAWS = "import matplotlib.figure, matplotlib.backends.backend_agg"
MATPLOTLIB = [sys.executable, "-c", WHAT_DRAWS]


def time_of_children() -> float:
    """Return the CPU time of processes that have ended, so that others here matter little."""
    try:
        from resource import RUSAGE_CHILDREN, getrusage
    except ImportError:  # Windows
        return time.perf_counter()
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reading(folder: str) -> dict[str, list[str]]:
    """Return commands that read the runs in a folder, by name; what they write goes there too."""
    runs = f"{folder}/runs"
    readers = {
        "earl table": ["table", runs],
        "earl reproduce --status": ["reproduce", "--status", "--out", runs],
        "earl export csv": ["export", "csv", runs, "-o", f"{folder}/csv"],
        FIGURE: ["figure", "curves", runs, "-o", f"{folder}/curves.png"],
    }
    if find_spec("plotly"):
        readers["earl report"] = ["report", runs, "-o", f"{folder}/report.html"]
    return readers


def write_runs(folder: Path, count: int) -> None:
    """Make one small run, and write its records again as those of other seeds."""
    experiment = Experiment(
        method="er", dataset="shapes", stream="disjoint", settings={"per_class": 10, "every": 2}
    )
    first = folder / "1"
    for _ in RunDirectory(first, experiment).run(device="cpu", threads=1):
        pass
    record, result = (json.loads((first / name).read_bytes()) for name in RECORDS_OF_A_RUN)
    sealed = seal(read_lines(first / "history.jsonl"))
    result = {name: value for name, value in result.items() if name not in ("seals", "sha256")}
    for seed in range(2, count + 1):
        path = folder / str(seed)
        path.mkdir()
        record["experiment"]["seed"] = seed
        shutil.copy(first / "history.jsonl", path)
        texts = json.dumps(record), summary_text(result, record, sealed)
        for name, text in zip(RECORDS_OF_A_RUN, texts, strict=True):
            (path / name).write_text(text, encoding="utf-8")


COMMAND = [sys.executable, "-c", "from earl.cli.app import main; main()"]
WATCHED = "\n".join(
    (
        "import atexit, os, sys",
        "atexit.register(lambda: os._exit('torch' in sys.modules))",
        "from earl.cli.app import main",
        "main()",
    )
)


def running(command: list[str]) -> Thing:
    """Return a function that runs a process to its end."""
    return once(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def imports_torch(words: list[str]) -> bool:
    command = [sys.executable, "-c", WATCHED, *words]
    return bool(subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode)
