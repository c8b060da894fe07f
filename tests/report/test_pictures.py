"""Published pictures show the records that are kept, and those of this repository are not stale."""

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from earl.cli.app import app
from earl.errors import EarlError, InvalidSetting
from earl.report.results.description import Description
from earl.report.results.pictures import draw_pictures, stale_pictures
from run_folders import write_run

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = """
pages = ["page.md"]
[picture.curves]
figure = "curves"
runs = "small"
where = ["method=er"]
file = "docs/pictures/curves.png"
title = "Two methods"
"""


def published(folder: Path, described: str = DESCRIBED) -> Description:
    write_run(folder / "results" / "small", "er", 1, [0.2, 0.4])
    write_run(folder / "results" / "small", "earl", 1, [0.3, 0.5])
    (folder / "results" / "tables.toml").write_text(described, encoding="utf-8")
    (folder / "page.md").write_text("![curves](docs/pictures/curves.png)\n", encoding="utf-8")
    return Description.open(folder / "results" / "tables.toml")


def test_a_picture_is_stale_until_it_is_drawn_and_again_when_its_records_change(
    tmp_path: Path,
) -> None:
    description, path = published(tmp_path), tmp_path / "docs" / "pictures" / "curves.png"
    assert list(stale_pictures(description)) == [path]
    assert draw_pictures(description) == [path] and draw_pictures(description) == []
    with Image.open(path) as image:
        assert image.format == "PNG" and min(image.size) > 200
    write_run(tmp_path / "results" / "small", "earl", 2, [0.3, 0.5])  # which it does not show
    assert not stale_pictures(description)
    write_run(tmp_path / "results" / "small", "er", 2, [0.2, 0.4])
    assert list(stale_pictures(description)) == [path]


def test_what_is_drawn_counts_too(tmp_path: Path) -> None:
    draw_pictures(published(tmp_path))
    again = DESCRIBED.replace("Two methods", "One method")
    (tmp_path / "results" / "tables.toml").write_text(again, encoding="utf-8")
    assert stale_pictures(Description.open(tmp_path / "results" / "tables.toml"))


def test_a_picture_without_records_waits_for_them(tmp_path: Path) -> None:
    for absent in (DESCRIBED.replace('"small"', '"none"'), DESCRIBED.replace("=er", "=scr")):
        assert not draw_pictures(published(tmp_path / str(len(absent)), absent))


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("figure =", "figur =", "figure"),
        ('runs = "small"', "", "runs"),
        ("pictures/curves.png", "pictures/others.png", "no page shows"),
        ('figure = "curves"', 'figure = "curve"', "curves"),
    ],
)
def test_what_is_wrong_in_a_description_is_named(
    tmp_path: Path, before: str, after: str, word: str
) -> None:
    with pytest.raises(EarlError, match=word):
        draw_pictures(published(tmp_path, DESCRIBED.replace(before, after)))


def test_the_command_draws_and_checks(tmp_path: Path) -> None:
    description = published(tmp_path).path
    runner = CliRunner()
    assert runner.invoke(app, ["results", str(description), "--check"]).exit_code == 1
    assert "curves.png" in runner.invoke(app, ["results", str(description)]).output
    assert runner.invoke(app, ["results", str(description), "--check"]).exit_code == 0


def test_something_else_than_a_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"\.png"):
        draw_pictures(published(tmp_path, DESCRIBED.replace(".png", ".pdf")))


def test_the_pictures_of_this_repository_show_its_records() -> None:
    assert not stale_pictures(Description.open(ROOT / "results" / "tables.toml"))
