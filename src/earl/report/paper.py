"""The paper's own numbers (paper.csv), found by the names that they have here.

Seo et al., "Learning Equi-angular Representations for Online Continual Learning", CVPR 2024. The
file keeps the paper's names; the mappings below say which of our runs each row is about.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from earl.errors import UnknownName, suggest
from earl.experiments.recipes import Value


@dataclass(frozen=True)
class Reported:
    """A number of the paper, in percent; over three seeds where there is a deviation."""

    mean: float
    std: float | None


@dataclass(frozen=True)
class Row:
    """A row of the paper's tables: one of our methods, with settings that it must have."""

    name: str
    method: str
    settings: Mapping[str, Value] = field(default_factory=dict)


DATASETS = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "TinyImageNet",
    "imagenet-200": "ImageNet-200",
    "imagenet-1k": "ImageNet-1K",
    "clear-10": "CLEAR-10",
    "clear-100": "CLEAR-100",
}
SETUPS = {
    "disjoint": "disjoint",
    "gaussian": "gaussian",
    "clear": "domain_class_incremental",
}
# The paper does not say on which stream it measured forgetting; its A_AUC fits the Gaussian one.
UNSTATED = {"gaussian": "unstated"}

# Preparatory data are counted inside the batch, as the paper says; its authors' code adds them.
PREPARED: Mapping[str, Value] = {"preparatory": True, "preparatory_count": "inside"}
FULL: Mapping[str, Value] = {**PREPARED, "correction": True}
NO_RC: Mapping[str, Value] = {**PREPARED, "correction": False}
VANILLA: Mapping[str, Value] = {"preparatory": False, "correction": False}

COMPARED = (
    Row("EWC", "ewc"),
    Row("ER", "er"),
    Row("ER-MIR", "er-mir"),
    Row("REMIND", "remind"),
    Row("DER++", "der++"),
    Row("SCR", "scr"),
    Row("ODDL", "oddl"),
    Row("MEMO", "memo"),
    Row("X-DER", "x-der", {"rivals": "seen"}),  # as in the authors' code
    Row("EARL", "earl", {**FULL, "negative": "rotation"}),
)
ROWS: Mapping[str, tuple[Row, ...]] = {
    "main": COMPARED,
    "imagenet": COMPARED,
    "main_const": COMPARED,
    "clear": (*COMPARED, Row("SCR++", "scr"), Row("PoLRS", "polrs")),
    "ablation": (
        Row("EARL", "earl", {**FULL, "negative": "rotation"}),
        Row("EARL minus RC", "earl-no-rc", NO_RC),
        Row("EARL minus RC", "earl", NO_RC),
        Row("EARL minus RC and PDT (vanilla ETF)", "vanilla-etf", VANILLA),
        Row("EARL minus RC and PDT (vanilla ETF)", "earl", VANILLA),
    ),
    "transform_comp": (
        Row("EARL with negative rotation", "earl", {**FULL, "negative": "rotation"}),
        Row("EARL with patch permutation", "earl", {**FULL, "negative": "permutation"}),
        Row("EARL with negative cutmix", "earl", {**FULL, "negative": "cutmix"}),
        Row("EARL with gaussian noise", "earl", {**FULL, "negative": "noise"}),
    ),
    "etf_forgetting": (
        Row("fixed ETF classifier", "earl", {**FULL, "classifier": "fixed"}),
        Row("learnable classifier", "earl-learnable", {**FULL, "classifier": "learnable"}),
    ),
    "ncfscil": (Row("NC-FSCIL", "nc-fscil"), Row("Vanilla ETF", "vanilla-etf", VANILLA)),
    "layer_comp": (
        *(Row(f"REMIND frozen {n} layers", "remind", {"frozen": n}) for n in (4, 5, 6, 7)),
        Row("REMIND frozen 6 layers", "remind", {"frozen": -1}),  # three quarters of ResNet-18
    ),
    "codebooknum_comp": (
        *(
            Row(f"REMIND codebooks={n}", "remind", {"codebooks": n, "codewords": 256})
            for n in (8, 16, 32, 64)
        ),
        *(
            Row(f"REMIND codebook_size={n}", "remind", {"codebooks": 32, "codewords": n})
            for n in (256, 512, 1024, 2048)
        ),
    ),
}
MATCHED = ("main_const", "clear")  # there every method may spend the same number of FLOPs
# On CLEAR the authors' code asks about all time buckets of the seen classes, also those to come.
READINGS: Mapping[str, Mapping[str, str]] = {
    "clear": {"A_AUC": "A_AUC_all", "A_last": "A_last_all"}
}


@cache
def figures() -> "Mapping[Key, Reported]":
    """Return every number of the paper by table, data set, setup, method and metric."""
    text = files("earl.report").joinpath("paper.csv").read_text(encoding="utf-8")
    return {
        (line["table"], line["dataset"], line["setup"], line["method"], line["metric"]): Reported(
            float(line["mean"]), float(line["std"]) if line["std"] else None
        )
        for line in csv.DictReader(text.splitlines())
    }


def check_table(table: str) -> None:
    """Raise unless the paper has such a table of runs."""
    if table not in ROWS:
        raise UnknownName(f"no table {table!r} in the paper; {suggest(table, tuple(ROWS))}")


Key = tuple[str, str, str, str, str]  # table, data set, setup, row and metric, as in the paper


def reported(
    table: str,
    *,
    dataset: str,
    stream: str,
    method: str,
    settings: Mapping[str, Value],
    metric: str,
) -> tuple[Reported, Row] | None:
    """Return the paper's number for a run with its row, or None if that table has none.

    >>> reported("main", dataset="cifar10", stream="gaussian", method="er", settings={},
    ...          metric="A_AUC")[0]
    Reported(mean=60.13, std=0.56)
    """
    rows = [
        (key_of(table, dataset, stream, r, metric), r) for r in rows_of(table, method, settings)
    ]
    return next(((figures()[key], row) for key, row in rows if key in figures()), None)


def rows_of(table: str, method: str, settings: Mapping[str, Value]) -> list[Row]:
    """Return the rows of a table that are about such a run; two names may mean the same run."""
    return [
        row
        for row in ROWS[table]
        if row.method == method
        and all(settings.get(name) == value for name, value in row.settings.items())
    ]


def key_of(table: str, dataset: str, stream: str, row: Row, metric: str) -> Key:
    """Return where in the paper a number stands, or would stand; `metric` is one of ours."""
    setup = (UNSTATED if table == "etf_forgetting" else SETUPS).get(stream, "")
    readings = READINGS.get(table, {})
    theirs = {ours: name for name, ours in readings.items()}
    name = "" if metric in readings else theirs.get(metric, metric)
    return (table, DATASETS.get(dataset, ""), setup, row.name, name)
