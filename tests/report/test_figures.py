"""Figures: each is drawn from real runs, and shows what their histories say."""

import json
import re
import sys
from itertools import pairwise
from statistics import fmean, stdev

import numpy as np
import pytest

from earl.errors import EarlError, InvalidSetting
from earl.evaluation.metrics import a_auc
from earl.experiments.catalogue import FIGURES, METHODS
from earl.experiments.runs.records import choose_runs, find_runs
from earl.report.figures import COLOURS
from earl.report.figures.canvas import save
from earl.report.figures.colours import colour_of, looks
from earl.report.figures.curves import moving_average, window
from earl.report.figures.tsne import Cloud
from earl.report.groups import group_runs
from earl.report.page.charts import charts_of, looks_of
from run_folders import write_run


@pytest.mark.parametrize("name", FIGURES.names())
def test_every_figure_becomes_a_picture(figure_folder, name, tmp_path, earl):
    path = tmp_path / f"{name}.png"
    code, out, err = earl("figure", name, figure_folder, "-o", path, "--json")
    assert code == 0, err
    assert json.loads(out) == {"figure": name, "runs": 6, "picture": str(path)}
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_equal_runs_give_equal_bytes(runs, tmp_path, ending):
    paths = [tmp_path / f"{number}.{ending}" for number in (1, 2)]
    for path in paths:
        save(FIGURES["tpt"](runs), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert not re.search(rb"20\d\d-\d\d-\d\d|CreationDate", paths[0].read_bytes())


def test_a_picture_has_a_known_ending(runs, tmp_path):
    with pytest.raises(InvalidSetting, match=r"\.png, \.pdf or \.svg"):
        save(FIGURES["tpt"](runs), tmp_path / "figure.jpg")


def line(axes, label):
    found = [line for line in axes.get_lines() if line.get_label().startswith(label)]
    assert len(found) == 1
    return found[0]


def band(axes):
    """Return the lower and the upper edge of the only band, by step."""
    collection, explained = axes.collections
    assert explained.get_label() == "band: ± 1 standard deviation"
    edges = {}
    for x, y in collection.get_paths()[0].vertices:
        edges.setdefault(x, []).append(y)
    return {x: (min(ys), max(ys)) for x, ys in edges.items()}


def test_curves_show_the_mean_and_the_deviation_over_seeds(runs):
    chosen = choose_runs(runs, ["method=vanilla-etf"])
    axes, classes = FIGURES["curves"](chosen).axes
    drawn = line(axes, "vanilla-etf (2)")
    values = [[100 * e.accuracy for e in run.history] for run in chosen]
    assert drawn.get_xdata().tolist() == [e.step for e in chosen[0].history]
    assert drawn.get_ydata() == pytest.approx([fmean(both) for both in zip(*values, strict=True)])
    assert drawn.get_color() == COLOURS["vanilla-etf"]
    areas = [100 * a_auc(run.history) for run in chosen]
    assert f"A_AUC {fmean(areas):.1f} ± {stdev(areas):.1f}" in drawn.get_label()
    for step, both in zip(drawn.get_xdata(), zip(*values, strict=True), strict=True):
        ends = fmean(both) - stdev(both), fmean(both) + stdev(both)
        assert band(axes)[step] == pytest.approx((max(0, ends[0]), min(100, ends[1])))
    seen = [len(e.total) for e in chosen[0].history]
    assert classes.get_lines()[0].get_ydata().tolist() == seen


@pytest.mark.parametrize("name", ["curves", "online-accuracy"])
def test_a_band_ends_where_values_do(name, tmp_path):
    for seed, accuracy in {1: 1.0, 2: 0.98, 3: 0.5}.items():  # 82.7 ± 28.3
        write_run(tmp_path, "er", seed, [accuracy])
        write_run(tmp_path, "earl", seed, [1 - accuracy])
    axes = FIGURES[name](find_runs([tmp_path])).axes[0]
    for collection in axes.collections[:2]:
        heights = [y for _, y in collection.get_paths()[0].vertices]
        assert min(heights) >= 0 and max(heights) <= 100
        assert max(heights) == 100 or min(heights) == 0
    groups, _ = group_runs(find_runs([tmp_path]))
    for chart in charts_of(groups, looks_of(groups), 1):
        bands = [trace["y"] for trace in chart["traces"] if trace.get("fill")]
        assert len(bands) == 2 and all(0 <= y <= 100 for ys in bands for y in ys)


def test_curves_show_where_tasks_end(runs, tmp_path):
    (axes, _) = FIGURES["curves"](choose_runs(runs, ["negative=noise"])).axes
    assert line(axes, "task boundary").get_xdata()[0] == 20
    write_run(tmp_path, "er", 1, [0.5, 0.75], stream="gaussian")  # which has none
    (axes, _) = FIGURES["curves"](find_runs([tmp_path])).axes
    assert [drawn.get_label() for drawn in axes.get_lines()] == ["er, A_AUC 62.5"]


def test_one_seed_has_no_band(runs):
    figure = FIGURES["curves"](choose_runs(runs, ["negative=noise"]))
    assert not figure.axes[0].collections and "±" not in figure.axes[0].get_lines()[0].get_label()


def test_data_sets_and_streams_have_panels_of_their_own(runs, tmp_path):
    write_run(tmp_path, "er", 1, [0.5, 0.75], stream="gaussian")
    figure = FIGURES["curves"]([*runs, *find_runs([tmp_path])], title="Both", allow_mixed=True)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    small = "depth=4, every=5, iterations=0.5, per_class=10, width=16"
    assert [title.replace("\n", " ") for title in titles[:2]] == [
        "shapes, gaussian",
        f"shapes ({small}), disjoint",
    ]
    assert figure.get_suptitle() == "Both"
    assert line(figure.axes[0], "er").get_ydata().tolist() == [50, 75]


@pytest.mark.parametrize(
    ("name", "reading", "factor"), [("tpt", "training_error", 100), ("bias", "bias", 1)]
)
def test_readings_and_boundaries_are_drawn_as_they_were_recorded(runs, name, reading, factor):
    (run,) = choose_runs(runs, ["negative=noise"])
    (axes,) = FIGURES[name]([run]).axes
    read = {e.step: factor * e.extra[reading] for e in run.history if reading in e.extra}
    drawn = line(axes, "earl")
    assert dict(zip(drawn.get_xdata(), drawn.get_ydata(), strict=True)) == pytest.approx(read)
    assert run.boundaries == (20,)
    assert line(axes, "task boundary").get_xdata()[0] == 20


def test_collapse_has_a_panel_for_each_measure_as_it_was_recorded(runs):
    (run,) = choose_runs(runs, ["negative=noise"])
    panels = FIGURES["collapse"]([run]).axes
    assert [axes.get_ylabel()[:3] for axes in panels] == ["NC1", "NC2", "NC3"]
    for axes, name in zip(panels, ("NC1", "NC2", "NC3"), strict=True):
        read = {e.step: e.extra[name] for e in run.history if name in e.numbers}
        drawn = line(axes, "earl")
        assert dict(zip(drawn.get_xdata(), drawn.get_ydata(), strict=True)) == pytest.approx(read)


def test_online_accuracy_is_taken_over_the_last_samples(runs):
    (run,) = choose_runs(runs, ["negative=noise"])
    (axes,) = FIGURES["online-accuracy"]([run]).axes
    assert window(run) == 5 and "last 5\n" in axes.get_ylabel()
    counts = [0, *(e.online_correct for e in run.history)]
    expected = [100 * (b - a) / 5 for a, b in pairwise(counts)]
    assert line(axes, "earl").get_ydata() == pytest.approx(expected)


def test_the_window_of_a_long_stream_is_500_samples(tmp_path):
    write_run(tmp_path, "er", 1, [n / 400 for n in range(400)])  # one evaluation per 40 samples
    (run,) = find_runs([tmp_path])
    assert window(run) == 500
    found, right = moving_average(run), {e.step: e.online_correct for e in run.history}
    assert found[400] == 100 * right[400] / 400  # all so far
    assert found[16_000] == 100 * (right[16_000] - right[15_480]) / 520  # the least that holds 500


def test_every_method_has_a_colour_of_its_own_and_others_keep_theirs():
    ours = {colour_of(name) for name in METHODS.names() if name in COLOURS}
    assert len(ours) == len(COLOURS) and set(COLOURS) <= set(METHODS.names())
    assert colour_of("from-outside") == colour_of("from-outside") not in COLOURS.values()


def test_no_two_lines_of_a_figure_look_the_same():
    rows = [*COLOURS, "earl", "earl", "earl", "er"]
    assert len(set(looks(rows))) == len(rows)
    assert all(look.mark for look in looks(rows)) and not looks(["er"])[0].mark


def test_without_scikit_learn_the_tsne_figure_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    cloud = Cloud(np.zeros((4, 2)), np.zeros(4), age=1)
    with pytest.raises(EarlError, match=r'pip install "earl-learn\[tsne\]"'):
        cloud.places()
