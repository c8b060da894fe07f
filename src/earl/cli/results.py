"""The command `earl results`: tables in pages, made of the records that are kept."""

from pathlib import Path
from typing import Annotated

import typer

from earl.cli.options import Json
from earl.cli.output import keep_fonts
from earl.cli.text import complain, print_json, say


def results(
    description: Annotated[
        Path, typer.Argument(help="Says which tables stand in which pages.")
    ] = Path("results/tables.toml"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if a page is stale.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fill the tables of pages from records that are kept, and draw their pictures.

    Records are kept with `earl export records RUNS -o results/NAME`.
    """
    from earl.report.results.description import Description
    from earl.report.results.pages import stale_pages, write_pages
    from earl.report.results.pictures import draw_pictures, stale_pictures

    described = Description.open(description)
    if check:
        pages = [*stale_pages(described), *stale_pictures(described)]
    else:
        keep_fonts()
        pages = [*write_pages(described), *draw_pictures(described)]
    if as_json:
        print_json({"stale" if check else "written": [page.as_posix() for page in pages]})
    for page in pages:
        if check:
            complain(
                f"earl: {page} does not show what the records say; run: earl results {description}"
            )
        elif not as_json:
            say(str(page))
    if check and pages:
        raise typer.Exit(1)
