"""Tables of run folders, and their parts, for tests of tables."""

from earl.experiments.runs.records import choose_runs, find_runs
from earl.report.tables import make_table


def table_of(folder, *metrics, where=(), **given):
    runs = choose_runs(find_runs([folder]), where)
    return make_table(runs, metrics or ("A_AUC", "A_last"), **given)


def cell(table, row, metric="A_last", column=0):
    return table.cells[row, table.columns[column], metric]


def body(text):
    """Return the rows of a Markdown table as lists of texts."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[part.strip() for part in row.strip("|").split("|")] for row in rows]
