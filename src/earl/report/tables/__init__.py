"""Tables of results, for a terminal and for papers."""

from earl.report.tables.table import Cell, Table, make_table

__all__ = ["Cell", "Table", "make_table"]
