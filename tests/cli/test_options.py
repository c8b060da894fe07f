"""Words are read without pydantic where they are plain; what comes out is what typer reads."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from earl.cli.options import LightGroup


class Kind(StrEnum):
    one = "one"
    two = "two"


def read_by(group: type[TyperGroup], line: str) -> tuple[object, str]:
    """Return what a command receives of a line in a group, or what is wrong with the line."""
    app = typer.Typer(cls=group, add_completion=False, rich_markup_mode=None)
    received: list[dict[str, object]] = []

    @app.callback()
    def everything(loud: bool = False) -> None:
        received.append({"loud": loud})

    @app.command()
    def take(
        name: str,
        folders: list[Path] | None = None,
        out: Annotated[Path, typer.Option("--out", "-o")] = Path("here"),
        maybe: Path | None = None,
        kind: Kind = Kind.one,
        other: Kind | None = None,
        count: Annotated[int, typer.Option(min=1)] = 3,
        words: Annotated[list[str] | None, typer.Option("--set")] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        values = {**locals()}
        del values["received"]
        received.append(values)

    try:
        code = get_command(app).main(line.split(), standalone_mode=False)
    except Exception as error:
        return type(error), str(error)
    return (code, *received), ""


@pytest.mark.parametrize(
    "line",
    [
        "take a",
        "--loud take a --flag",
        "take a b c -o there --maybe x --kind two --other one --count 7",
        "take a --set x=1 --set y=2",
        "take a --out /",
        "take a -- -b",
        "",
        "take",
        "take a --kind three",
        "take a --count 0",
        "take a --count many",
        "take a --nothing",
        "take a --set",
        "tak a",
    ],
)
def test_a_group_that_spares_pydantic_reads_lines_as_typer_does(line: str) -> None:
    assert read_by(LightGroup, line) == read_by(TyperGroup, line)


def test_a_path_that_must_not_be_read_is_refused_as_typer_does(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    error, said = read_by(LightGroup, f"take a --out {tmp_path}")
    assert (error, said) == read_by(TyperGroup, f"take a --out {tmp_path}")
    assert "not readable" in said
