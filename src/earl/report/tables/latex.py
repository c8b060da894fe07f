"""A table in LaTeX: the best numbers bold, and in pieces that fit a page."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from earl.report.measures import BEST
from earl.report.tables.layout import Head, heads_of, legend, number, pieces, places, text_of
from earl.report.tables.table import Table
from earl.storage.printable import printable

WIDE = 64  # letters that surely fit a line of an article, with the gaps between columns
SMALLER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
SCALED = 1.6  # a table up to this many times too wide is scaled down: letters stay readable
TEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "…": r"\dots{}",
}


def latex(table: Table) -> str:
    r"""Return a table environment for \usepackage{booktabs}, with a caption and a label."""
    parts = packed(table, pieces(heads_of(table), lambda piece: fits(table, piece)))
    scaled = any(width(table, part) > WIDE for part in parts)
    needs = r"\usepackage{booktabs}" + (r" and \usepackage{graphicx}" if scaled else "")
    bold = " Bold: the best mean of a column." if best_of(table) else ""
    lines = [
        f"% Needs {needs} in the preamble.",
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{tex(legend(table) + bold)}}}",
        f"\\label{{{label(table)}}}",
        r"\par\medskip",
    ]
    for part in parts:
        lines += [] if part is parts[0] else [r"\par\bigskip"]
        lines += tabular(table, part)
    lines += [f"\\par\\footnotesize {tex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def packed(table: Table, parts: Iterable[Sequence[Head]]) -> list[list[Head]]:
    """Return pieces with neighbours beside each other wherever both fit."""
    made: list[list[Head]] = []
    for part in parts:
        if made and fits(table, [*made[-1], *part]):
            made[-1] += part
        else:
            made.append(list(part))
    return made


def fits(table: Table, heads: Sequence[Head]) -> bool:
    return width(table, heads) <= SCALED * WIDE


def width(table: Table, heads: Sequence[Head]) -> int:
    """Return about how many letters wide some columns of text are, beside the names of the rows."""
    rows = rows_of(table, heads)
    columns = [[head.title, *(text_of(table, row, head) for row in rows)] for head in heads]
    return sum(max(map(len, texts), default=0) + 2 for texts in [rows, *columns])


def rows_of(table: Table, heads: Sequence[Head]) -> list[str]:
    """Return the rows that have a number in some columns of text."""
    places = {(head.column, head.measure.name) for head in heads}
    return [row for row in table.rows if any((row, *place) in table.cells for place in places)]


def tabular(table: Table, heads: Sequence[Head]) -> list[str]:
    """Return one piece, data set and stream above and the metrics below; too wide, it is scaled."""
    above, rules, start = [], [], 2
    for column, of in groupby(heads, key=lambda head: head.column):
        n = len(list(of))
        above.append(f"\\multicolumn{{{n}}}{{c}}{{{tex(str(column))}}}")
        rules.append(f"\\cmidrule(lr){{{start}-{start + n - 1}}}")
        start += n
    best = best_of(table)
    lines = [
        f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
        r"\toprule",
        tex_row(["", *above]),
        "".join(rules),
        tex_row(["method", *(tex(head.title) for head in heads)]),
        r"\midrule",
        *(
            tex_row([tex(row), *(tex_cell(table, row, head, best) for head in heads)])
            for row in rows_of(table, heads)
        ),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if width(table, heads) <= WIDE:
        return lines
    return [SMALLER, *lines[:-1], lines[-1] + "}"]


def tex_cell(table: Table, row: str, head: Head, best: set[tuple[str, Head]]) -> str:
    text = tex(text_of(table, row, head))
    return f"\\textbf{{{text}}}" if (row, head) in best else text


def best_of(table: Table) -> set[tuple[str, Head]]:
    """Return where the best means stand, with all those that look the same.

    There are none for a metric of which it is unknown whether more or less is better, nor where
    there is only one row.
    """
    found: set[tuple[str, Head]] = set()
    for head in heads_of(table):
        cells = {row: table.cells.get((row, head.column, head.measure.name)) for row in table.rows}
        means = {row: cell.spread.mean for row, cell in cells.items() if cell}
        if head.kind != "ours" or head.measure.name not in BEST or len(means) < 2:
            continue
        choose = max if BEST[head.measure.name] == "highest" else min
        first = choose(means, key=means.__getitem__)
        digits = places(table.cells[first, head.column, head.measure.name], head.measure)
        same = number(means[first], digits)
        found |= {(row, head) for row, mean in means.items() if number(mean, digits) == same}
    return found


def label(table: Table) -> str:
    r"""Return a name for \ref that tells tables of other data sets or metrics apart."""
    names = [name for column in table.columns for name in (column.dataset, column.stream)]
    names += [measure.name for measure in table.measures if measure.kind != "cost"]
    plain = (re.sub(r"[^a-z0-9]+", "-", name.partition(" (")[0].lower()) for name in names)
    return "tab:" + "-".join(dict.fromkeys(name.strip("-") for name in plain))


def tex_row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def tex(text: str) -> str:
    """Return text that LaTeX shows as it is."""
    return "".join(TEX.get(c, c) for c in printable(text))
