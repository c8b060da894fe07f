"""Writing a table down: Markdown, CSV and JSON, beside LaTeX. Equal tables give equal bytes."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from earl.report.groups import display_value
from earl.report.tables.latex import latex
from earl.report.tables.layout import heads_of, legend, text_of
from earl.report.tables.table import Cell, Table
from earl.storage.printable import printable


def markdown(table: Table) -> str:
    """Return a table as Markdown; what all columns have in common stands above it."""
    heads = heads_of(table)
    alone = len(table.columns) == 1
    titles = [h.title if alone else f"{h.column}: {h.title}" for h in heads]
    lines = [
        *([f"**{md(str(table.columns[0]))}**", ""] if alone else []),
        md_row(["method", *titles]),
        "|" + "---|" + "---:|" * len(heads),
        *(md_row([row, *(text_of(table, row, head) for head in heads)]) for row in table.rows),
        "",
        md(legend(table)),
    ]
    notes = [f"- {md(note)}" for note in table.notes]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def md_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(md, texts)) + " |"


def md(text: str) -> str:
    """Return text that Markdown shows as it is."""
    text = printable(text)
    for c in "\\|*<":
        text = text.replace(c, f"\\{c}")
    return text


def records(table: Table) -> list[dict[str, Any]]:
    """Return one record per cell, with its numbers in full."""
    return [
        {
            "dataset": column.dataset,
            "stream": column.stream,
            "row": row,
            "method": cell.method,
            "changed": {name: display_value(value) for name, value in sorted(cell.changed.items())},
            "metric": measure.name,
            "unit": measure.unit,
            **numbers(cell),
        }
        for row in table.rows
        for column in table.columns
        for measure in table.measures
        if (cell := table.cells.get((row, column, measure.name)))
    ]


def numbers(cell: Cell) -> dict[str, Any]:
    """Return all numbers of a cell; what it lacks is None."""
    spread, difference, paper = cell.spread, cell.difference, cell.paper
    return {
        "values": {str(seed): value for seed, value in sorted(cell.values.items())},
        "mean": spread.mean,
        "std": spread.std,
        "n": spread.n,
        "difference": difference.mean if difference else None,
        "low": difference.low if difference else None,
        "high": difference.high if difference else None,
        "common_seeds": difference.n if difference else None,
        "paper_mean": paper.mean if paper else None,
        "paper_std": paper.std if paper else None,
        "gap": cell.gap,
    }


def as_json(table: Table) -> str:
    """Return all cells and notes as one JSON object."""
    whole = {
        "versus": table.versus,
        "paper_table": table.paper,
        "cells": records(table),
        "notes": list(table.notes),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(table: Table) -> str:
    """Return one line per cell; a cell's values by seed are in one field, as are its settings."""
    listed = [
        {
            **record,
            "changed": " ".join(f"{n}={v}" for n, v in record["changed"].items()),
            "values": " ".join(f"{seed}:{value!r}" for seed, value in record["values"].items()),
        }
        for record in records(table)
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(listed[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()


FORMATS = {"md": markdown, "latex": latex, "csv": as_csv, "json": as_json}
