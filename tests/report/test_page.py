"""The page about runs: it says what the tables say, asks for nothing, and works in a browser."""

import json
import shutil
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

from earl.errors import EarlError, MixedRuns
from earl.experiments.runs.records import find_runs
from earl.report.figures.colours import COLOURS
from earl.report.page.charts import MOST_POINTS, channels, luminance, on_dark, thin
from earl.report.page.grids import budget_grid, result_grid
from earl.report.page.inventory import settings_of, users
from earl.report.page.page import plotly_script, write_page
from earl.report.statistics import Spread
from earl.report.tables import make_table
from earl.report.tables.formats import markdown
from pages import (
    COSTS,
    RUNS,
    Reader,
    page_of,
    panels_of,
    write_evil_runs,
    write_page_runs,
)
from run_folders import write_run, write_summary

pytest.importorskip("plotly")


@pytest.fixture
def folder(tmp_path):
    """Three methods, two seeds."""
    write_page_runs(tmp_path / "runs")
    return tmp_path / "runs"


def test_the_result_table_is_that_of_earl_table(folder):
    made = make_table(find_runs([folder]), versus="er")
    rows = [line for line in markdown(made).splitlines() if line.startswith("|")]
    cells = [[part.strip() for part in row.strip("|").split("|")] for row in rows]
    shown = Reader(page_of(folder, versus="er")).tables[0]
    assert shown[0] == ["method", "A_AUC", "A_AUC vs er", "A_last", "A_last vs er"]
    assert shown[1:] == cells[2:]
    assert shown[2][:2] == ["earl", "85.00 ± 3.54 (2)"]  # (82.5 + 87.5) / 2


def test_notes_under_the_table_are_those_of_earl_table(folder):
    write_run(folder, "er", 3, (0.5, 0.5), finished=False)
    write_run(folder, "earl", 4, RUNS["earl"][0], extra=COSTS)
    notes = make_table(find_runs([folder])).notes
    text = Reader(page_of(folder)).text
    assert len(notes) == 3 and all(note in text for note in notes)
    assert "1 of them has not ended" in text


def test_numbers_of_the_paper_stand_beside_ours(tmp_path):
    write_page_runs(tmp_path, dataset="cifar10", stream="gaussian")
    heads = Reader(page_of(tmp_path, paper="main")).tables[0][0]
    assert heads[:4] == ["method", "A_AUC", "A_AUC paper", "A_AUC gap"]


def test_the_first_paragraph_says_what_there_is(folder):
    assert (
        "6 runs of 3 methods (der++, earl, er) on shapes, disjoint, with seeds 1, 2. "
        "All have ended." in Reader(page_of(folder)).text
    )


def test_curves_are_means_over_seeds_with_a_band_of_one_deviation(folder):
    (panel,) = panels_of(page_of(folder))
    exam = panel["charts"][0]
    line = next(t for t in exam["traces"] if t.get("name") == "er")
    band = exam["traces"][exam["traces"].index(line) - 1]
    assert (line["x"], line["y"]) == ([40, 80, 120, 160], [90.0, 75.0, 65.0, 55.0])
    assert line["line"]["color"] == COLOURS["er"]
    high = [90.0, 82.07, 72.07, 62.07]  # the deviation of two values 10 apart is 7.07
    low = [90.0, 67.93, 57.93, 47.93]
    assert band["x"] == [40, 80, 120, 160, 160, 120, 80, 40]
    assert band["y"] == [*high, *reversed(low)]


def test_plotly_knows_everything_it_is_asked_to_draw(folder):
    graph_objects = pytest.importorskip("plotly.graph_objects")
    write_page_runs(folder, ("earl",), settings={"k": 5})
    write_page_runs(folder, ("earl",), settings={"k": 9})  # five lines get marks
    charts = [chart for panel in panels_of(page_of(folder)) for chart in panel["charts"]]
    assert [chart["id"] for chart in charts] == ["accuracy-1", "online-1"]
    for chart in charts:
        figure = graph_objects.Figure(data=chart["traces"], layout=chart["layout"])
        assert len(figure.data) == 10


def test_every_data_set_and_stream_has_its_own_tables_and_curves(folder):
    write_page_runs(folder, ("er", "earl"), stream="gaussian")
    page = page_of(folder)
    panels = panels_of(page)
    assert [panel["name"] for panel in panels] == ["shapes, disjoint", "shapes, gaussian"]
    assert [len(panel["legend"]) for panel in panels] == [3, 2]
    assert [len(table) - 1 for table in Reader(page).tables[:2]] == [3, 2]


def test_classes_and_budgets_are_listed(folder):
    tables = Reader(page_of(folder)).tables
    assert tables[1] == [
        ["class", "der++", "earl", "er"],
        ["0", "25.00", "80.00", "55.00"],
        ["1", "25.00", "80.00", "55.00"],
    ]
    assert tables[2][0][1:] == ["updates", "images trained", "training FLOPs", "bytes held", "time"]
    assert tables[2][1] == ["der++", "160", "2,560", "1.5 GFLOP", "2.05 kB", "2.5 s"]


def test_numbers_of_probes_stand_with_the_metrics_and_not_with_the_costs(tmp_path):
    write_page_runs(tmp_path, extra=COSTS | {"NC1": 0.25})
    table = make_table(find_runs([tmp_path]), ["A_AUC", "NC1"], costs=True)
    (column,) = table.columns
    assert result_grid(table, column).heads == ("method", "A_AUC", "NC1")
    assert "NC1" not in budget_grid(table, column).heads
    assert "0.250 ± 0.000 (2)" in page_of(tmp_path, metrics=["NC1"])


def test_settings_environment_notes_and_commands_are_listed(folder):
    path = next(folder.rglob("er/seed-1/summary.json")).parent
    write_summary(path, json.loads((path / "summary.json").read_text()) | {"notes": ["mind this"]})
    read = Reader(page_of(folder))
    own, shared, environment = read.tables[3:6]
    assert ["k", "15", "earl"] in own and ["alpha", "0.5", "der++"] in own
    assert ["tasks", "2"] in shared and ["data: train_images", "160"] in shared
    assert ["threads", "1"] in environment and ["device", "cpu"] in environment
    assert "shapes/disjoint/er/seed-1 mind this" in read.text
    command = "earl run --method der++ --dataset shapes --stream disjoint --seed 2"
    assert command in read.text


def test_users_of_a_setting_are_named_as_shortly_as_possible(folder):
    write_page_runs(folder, ("earl",), stream="gaussian")
    write_page_runs(folder, ("earl",), settings={"k": 5})
    runs = find_runs([folder])
    er = [run for run in runs if run.experiment.method == "er"]
    five = [run for run in runs if settings_of(run).get("k") == "5"]
    gaussian = [run for run in runs if run.stream == "gaussian"]
    assert users(er, runs) == "er"
    assert users(five, runs) == "earl on shapes, disjoint (2 of 4 runs)"
    assert users([*er, *gaussian], runs) == "er; earl on shapes, gaussian"


def test_equal_runs_give_equal_bytes_wherever_they_lie(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert page_of(folder) == page_of(tmp_path / "elsewhere")


def test_curves_keep_at_most_300_points_with_both_ends():
    curve = {step: Spread(step, None, 1) for step in range(10, 10_010, 10)}
    steps = list(thin(curve))
    assert len(steps) == len(set(steps)) == MOST_POINTS
    assert (steps[0], steps[-1]) == (10, 10_000)
    assert {b - a for a, b in pairwise(steps)} == {30, 40}


def test_a_page_with_thinned_curves_says_so(tmp_path):
    write_run(tmp_path, "er", 1, [0.5] * (MOST_POINTS + 1))
    page = page_of(tmp_path)
    assert f"shows {MOST_POINTS} of its evaluations" in Reader(page).text
    assert len(panels_of(page)[0]["charts"][0]["traces"][0]["x"]) == MOST_POINTS


@pytest.mark.parametrize("colour", [*COLOURS.values(), "#000001"])
def test_every_colour_can_be_seen_on_a_dark_page(colour):
    dark = luminance(channels("#15181c"))
    contrast = (luminance(channels(on_dark(colour))) + 0.05) / (dark + 0.05)
    assert contrast >= 3  # as WCAG asks of graphics


def test_the_page_forbids_itself_the_network(folder):
    elements = Reader(page_of(folder)).elements
    policy = next(a["content"] for t, a in elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; script-src 'unsafe-inline'")
    addresses = [a[name] for _, a in elements for name in ("src", "href") if name in a]
    assert all(address.startswith(("#", "data:")) for address in addresses)


def test_tables_can_be_read_by_a_screen_reader(folder):
    page = page_of(folder)
    elements = Reader(page).elements
    tables = [t for t, _ in elements if t == "table"]
    assert [t for t, _ in elements].count("caption") == len(tables) == 6
    assert {a.get("scope") for t, a in elements if t == "th"} == {"col", "row"}
    charts = [a for _, a in elements if a.get("class") == "chart"]
    assert all(a["role"] == "img" and "earl 80.0 %" in a["aria-label"] for a in charts[:1])
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_markup_in_names_is_shown_and_not_obeyed(tmp_path):
    title = write_evil_runs(tmp_path)
    plain = Reader(page_of(tmp_path, title=""))
    read = Reader(page_of(tmp_path, title=title))
    assert not any(tag == "img" or "onerror" in a for tag, a in read.elements)
    assert [t for t, _ in read.elements] == [t for t, _ in plain.elements]
    assert [t for t, _ in read.elements].count("script") == 3
    assert read.text.count("alert(2)") >= 5


def test_a_page_of_unfinished_runs_shows_how_far_they_are(tmp_path):
    write_run(tmp_path, "er", 1, (0.5, 0.625), finished=False)
    write_run(tmp_path, "er", 2, (), finished=False)
    page = page_of(tmp_path)
    read = Reader(page)
    assert "None has ended" in read.text and panels_of(page) == []
    assert read.tables[0][1:] == [
        ["shapes/disjoint/er/seed-1", "80", "62.40", "not finished (80 samples)"],
        ["shapes/disjoint/er/seed-2", "0", "–", "not begun"],
    ]
    assert len(page) < 50_000  # no curves, no plotly


def test_runs_that_cannot_be_compared_are_refused_unless_allowed(folder):
    write_run(folder, "er", 7, (0.5, 0.6), env={"torch": "1.0"}, extra=COSTS)
    with pytest.raises(MixedRuns):
        page_of(folder)
    text = Reader(page_of(folder, allow_mixed=True)).text
    assert "mixed in shapes, disjoint: torch" in text
    assert "er on shapes, disjoint (1 of 3 runs)" in text  # has the other torch


def test_without_plotly_the_error_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(EarlError, match=r'pip install "earl-learn\[report\]"'):
        page_of(folder)


def test_plotlys_script_is_found_without_importing_plotly_or_by_asking_it(tmp_path, monkeypatch):
    script = plotly_script()
    assert script.decode() == pytest.importorskip("plotly.offline").get_plotlyjs()
    moved = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("earl.report.page.page.find_spec", lambda name: moved)
    assert plotly_script() == script


def test_a_page_that_cannot_be_written_is_an_error_of_ours(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EarlError, match="choose another -o"):
        write_page(tmp_path / "file" / "report.html", find_runs([folder]))


def test_an_empty_folder_is_an_error_of_ours(tmp_path, earl):
    code, _, said = earl("report", tmp_path)
    assert code == 1 and "no runs in" in said


def test_the_command_writes_the_page(folder, tmp_path, earl):
    path = tmp_path / "page.html"
    words = ("report", folder, "-o", path, "--versus", "er", "--where", "method=er")
    code, out, _ = earl(*words, "--where", "method=earl", "--title", "Two & two")
    assert code == 0 and out == f"{path}\n"
    text = path.read_text(encoding="utf-8")
    assert "<title>Two &amp; two</title>" in text and "4 runs of 2 methods" in text
    code, _, said = earl("report", folder, "-o", tmp_path / "no" / "page.html")
    assert code == 1 and "make it" in said
