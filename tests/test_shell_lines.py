"""The shell lines of the README and the docs: every one is understood, and nearly all are run.

What is run has small images and small networks under the same names, so that folders are called as
the pages say; sweeps are only planned. Lines that cannot be run here are listed with the reason.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from earl.bench.starts import picture, write_parquet
from earl.cli.app import app
from earl.cli.end import outcome
from earl.data.dataset import Dataset
from earl.data.reduce import reduced
from earl.data.sets import shapes
from earl.experiments import recipes
from earl.experiments.catalogue import DATASETS, DatasetFacts
from earl.experiments.registry import Entry
from run_folders import write_run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

NOT_RUN = {  # the beginning of a line, and why it is only parsed
    "torchrun ": "needs several processes",
    "earl demo": "takes a minute; test_cli runs it",
    "earl learn": "trains ResNet-18; test_model_commands learns with a small network",
    "earl predict": "needs a model; test_model_commands has one",
    "earl show": "needs a model; test_model_commands has one",
    "earl export onnx": "needs a model; test_model_commands has one",
    "earl bench": "takes minutes; test_bench runs a row",
    "earl results": "needs the records of the repository; test_results runs it",
    "earl table results/": "needs them too",
    "earl reproduce main --status --out results/": "needs them too",
    "earl serve": "runs until it is stopped; tests in service start it",
    "earl client": "needs a service; test_client has one",
    "earl forget": "needs the folder of a service; test_rebuild has one",
    "earl export taught": "needs it, too",
    "earl data download": "needs the network",
    "earl run --import my_package": "needs such a module; test_imports has one",
    "earl data prepare": "needs the data set itself",
    "earl sweep mine.toml --engine ray": "needs Ray; test_engines runs it where it is",
    "earl run --method er --dataset cifar10 --stream file:": "needs files of other projects",
}
PLANNED = ("earl sweep", "earl reproduce ablation")  # with --dry-run, unless they ask for less


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a block of lines, without what is said about them."""
    for line in text.splitlines():
        if not line.startswith(("earl ", "torchrun ", "pip ", "python ")) or is_table(line):
            continue
        for part in re.split(r";\s+|\s&&\s", line.partition(" #")[0]):
            if re.match(r"(earl|torchrun)\b", part):
                yield re.split(r"\s{2,}|\s>\s", part)[0].strip()


def is_table(line: str) -> bool:
    """Tell whether a line is a row of a printed table that begins with the method `earl`."""
    return re.match(r"earl\s+[\d.]", line) is not None


def blocks() -> list[tuple[str, list[str]]]:
    """Return the commands of all blocks of lines, with the page they are on."""
    found = []
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if not language and (lines := list(commands(text))):
                found.append((str(page.relative_to(ROOT)), lines))
    return found


def words_of(line: str) -> list[str]:
    """Return the words behind `earl`; dots stand for a method and a data set."""
    words = shlex.split(line.partition("-m ")[2] if line.startswith("torchrun") else line)[1:]
    if "..." in words:
        words.remove("...")
        words += [] if "--method" in words else ["--method", "er"]
        words += [] if "--dataset" in words else ["--dataset", "digits"]
    return words


def reason(line: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if line.startswith(start)), None)


def every_line() -> list[tuple[str, str]]:
    return [(page, line) for page, lines in blocks() for line in lines]


def test_pages_have_many_lines_and_all_exceptions_are_among_them() -> None:
    lines = [line for _, line in every_line()]
    assert len(lines) > 60
    assert {start for start in NOT_RUN for line in lines if line.startswith(start)} == set(NOT_RUN)
    assert sum(reason(line) is None for line in lines) > 50


@pytest.mark.parametrize(("page", "line"), every_line())
def test_every_line_is_understood(page: str, line: str) -> None:
    """Parse it as a command would be, to the last option, and carry nothing out."""
    command = typer.main.get_command(app)
    for leaf in leaves(command):
        leaf.callback = None
    with command.make_context("earl", words_of(line)) as context:
        command.invoke(context)


def leaves(command: object) -> Iterator[object]:
    """Yield a command and all that are below it."""
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from leaves(below)


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: None) -> Path:
    """A folder and a home with what the pages take for granted; data sets are small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def load(source: object) -> Dataset:
        return replace(reduced(shapes.load(), per_class=10), name="small")

    entries = {n: Entry(n, "", load, DatasetFacts()) for n in ("digits", "cifar10")}
    monkeypatch.setattr(DATASETS, "_entries", {**DATASETS._entries, **entries})
    small = {**recipes.RECIPES["shapes"], "every": 10}
    for name in ("digits", "cifar10", "folder", "csv", "parquet"):
        monkeypatch.setitem(recipes.RECIPES, name, small)  # type: ignore[attr-defined]
    own_images(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    example = re.search(r"```toml\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)
    assert example is not None
    (tmp_path / "mine.toml").write_text(example[1])
    return tmp_path


def own_images(home: Path) -> None:
    """Write the images that the pages call one's own: in folders, in a CSV file, in parquet."""
    rows = ["path,label"]
    for number in range(12):
        file = home / "photos" / f"class {number % 2}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
        rows.append(f"{file},{number % 2}")
    (home / "labels.csv").write_text("\n".join(rows))
    for folder in ("set", "cifar10"):
        pictures = [picture(n) for n in range(10)]
        for split in ("train", "test"):
            write_parquet(home / folder / f"{split}-00000-of-00001.parquet", pictures, 10)


def prepare_runs() -> None:
    """Make the runs that pages speak of without saying how they were made."""
    kind = {"dataset": "cifar10", "stream": "gaussian"}
    read = {"bias": 0.1, "training_error": 0.2, "NC1": 0.3}
    for folder, seed in (("runs", 1), ("runs", 2), ("other", 3)):
        for method, settings in (("er", {}), ("earl", {}), ("earl", {"k": 5})):
            write_run(Path(folder), method, seed, [0.3, 0.5], settings=settings, extra=read, **kind)


def runnable() -> list[tuple[str, list[str]]]:
    """Return the lines that are run, block by block."""
    chosen = [(page, [line for line in lines if not reason(line)]) for page, lines in blocks()]
    return [(page, lines) for page, lines in chosen if lines]


@pytest.mark.parametrize(("page", "lines"), runnable(), ids=lambda part: str(part)[:60])
def test_the_lines_of_a_block_run_one_after_another(
    page: str, lines: list[str], small_world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if any(re.search(r"^earl (table|figure|report|export)", line) for line in lines):
        prepare_runs()
    for line in lines:
        words = words_of(line)
        if line.startswith(PLANNED) and not {"--dry-run", "--status"} & set(words):
            words.append("--dry-run")
        capsys.readouterr()
        assert outcome(app, words) == 0, f"{line}: {capsys.readouterr().err}"
