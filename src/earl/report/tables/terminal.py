"""A table on a terminal: in one piece where it fits, else in smaller ones below each other."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from earl.report.groups import Column
from earl.report.tables.layout import Head, heads_of, legend, pieces, text_of
from earl.report.tables.table import Table
from earl.storage.printable import printable

UNLIMITED = 100_000  # columns


def show_table(table: Table, console: Console) -> None:
    """Print a table, and what has to be known about it."""
    wide = console.options.update(width=UNLIMITED)

    def fits(piece: Sequence[Head]) -> bool:
        return console.measure(grid(table, piece), options=wide).maximum <= console.width

    for piece in pieces(heads_of(table), fits):
        if len({head.column for head in piece}) == 1:
            about = f": {piece[0].measure.name}" if piece[0].kind != "ours" else ""
            console.print(plain(f"{piece[0].column}{about}", style="bold"))
        console.print(grid(table, piece))
        console.print()
    console.print(Text(legend(table), style="dim"))
    for note in table.notes:
        line = Grid.grid(padding=(0, 1))
        line.add_row("-", plain(note))
        console.print(line)


def grid(table: Table, heads: Sequence[Head]) -> Grid:
    """Return some columns of text; several streams are named above the metrics."""
    columns: set[Column] = {head.column for head in heads}
    made = Grid(box=None, header_style="bold", pad_edge=False)
    made.add_column("\n\nmethod" if len(columns) > 1 else "method", overflow="fold")
    for head in heads:
        several = [head.column.dataset, head.column.stream] if len(columns) > 1 else []
        title = "\n".join(map(printable, [*several, head.title]))
        made.add_column(Text(title, justify="right"), justify="right", no_wrap=True)
    for row in table.rows:
        made.add_row(plain(row), *(plain(text_of(table, row, head)) for head in heads))
    return made


def plain(text: str, style: str = "") -> Text:
    """Return text without markup, in which nothing acts on the terminal."""
    return Text(printable(text), style=style)
