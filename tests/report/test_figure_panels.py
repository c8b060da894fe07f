"""Heat maps, t-SNE, the figure of k and that of the stream: they show what was recorded."""

import json
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from matplotlib.image import AxesImage
from matplotlib.text import Text
from sklearn.manifold import TSNE

from earl.data.streams import Schedule
from earl.errors import DataNotFound
from earl.evaluation.metrics import a_auc, a_last
from earl.experiments.catalogue import FIGURES
from earl.experiments.runs.records import choose_runs, find_runs
from earl.methods.earl.earl import NEGATIVES
from earl.report.figures import cosines
from earl.report.figures.cosines import nearest, newest_of
from earl.report.figures.effect_of_k import MARKS
from earl.report.figures.stream import picture
from earl.report.figures.tsne import Cloud
from run_folders import write_run, write_summary


def pictures(figure):
    """Return the heat maps of a figure by their titles, without its colour bar."""
    return {
        axes.get_title(): np.asarray(image.get_array())
        for axes in figure.axes
        for image in axes.get_children()
        if isinstance(image, AxesImage)
    }


def test_the_cosines_are_those_recorded_nearest_to_50_samples_after_the_class(runs):
    shown = pictures(FIGURES["cosine"](choose_runs(runs, ["seed=1"])))
    assert set(shown) == {"earl, negative=noise", "earl, negative=rotation", "vanilla-etf"}
    (run,) = choose_runs(runs, ["method=vanilla-etf", "seed=1"])
    last = run.history[-1].extra  # the fourth class comes within 20 samples of the end
    assert last["cosine_classes"][1] == 3
    expected = sorted(last["cosines"][1], key=lambda row: -row[3])
    np.testing.assert_array_equal(shown["vanilla-etf"], expected)


@pytest.mark.parametrize(
    ("newest", "shown"), [((1, 3, 5), 3), ((1, 5, 9), 1), ((5, 7), 0), ((4,), 4), ((2, 4, 6), 4)]
)
def test_a_class_that_never_was_the_newest_gives_way_to_one_before_it(tmp_path, newest, shown):
    """Classes come in pairs on a disjoint stream, and only the newest is recorded, beside 0."""
    for method, classes in {"er": (1, 2, 3, 4, 5), "earl": newest}.items():
        path = write_run(tmp_path, method, 1, [0.5] * len(classes))
        history = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
        for record, c in zip(history, classes, strict=True):
            cosines = [[[0.5] * (c + 1)] * 2] * 2
            ages = {"cosine_classes": [0, c], "cosine_ages": [record["step"], 10]}
            record["extra"] = {"cosines": cosines, **ages}
        (path / "history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in history))
        write_summary(path, json.loads((path / "summary.json").read_text()))
    figure = FIGURES["cosine"](find_runs([tmp_path]))
    assert f"class {shown}, " in str([text.get_text() for text in figure.findobj(Text)])


def test_no_class_in_common_is_said(tmp_path):
    runs = find_runs([write_run(tmp_path, "er", 1, [0.5])])
    with pytest.raises(DataNotFound, match="cosines of no class up to 4 in common; evaluate more"):
        newest_of(runs, 4)


def test_the_nearest_record_is_found(runs):
    (run,) = choose_runs(runs, ["negative=noise"])
    ages = [e.extra["cosine_ages"][0] for e in run.history]
    assert nearest(run, 0, ages[2] + 2).age == ages[2]
    assert nearest(run, 0, ages[2] + 3).age == ages[3]


def test_the_figure_knows_all_negative_transformations_in_their_order():
    assert tuple(NEGATIVES) == cosines.NEGATIVES


def test_transformations_are_shown_side_by_side(runs):
    shown = pictures(FIGURES["transforms"](runs))
    assert list(shown) == ["rotation", "noise"]
    (run,) = choose_runs(runs, ["negative=noise"])
    last = run.history[-1].extra["cosines"][0]
    np.testing.assert_array_equal(shown["noise"], sorted(last, key=lambda row: -row[0]))


def test_the_features_are_embedded_by_class(runs):
    (run,) = choose_runs(runs, ["negative=noise"])
    early, late = FIGURES["tsne"]([run]).axes
    extra = run.history[-1].extra
    assert late.get_title() == f"earl, negative=noise\n{extra['feature_age']} samples after class 3"
    assert early.get_title() != late.get_title()
    places = TSNE(
        perplexity=(len(extra["features"]) - 1) / 3 if len(extra["features"]) < 91 else 30,
        init="pca",
        method="exact",
        random_state=0,
    ).fit_transform(np.asarray(extra["features"]))
    drawn = np.concatenate([np.asarray(dots.get_offsets()) for dots in late.collections])
    np.testing.assert_allclose(drawn, places, atol=1e-4)  # classes are recorded one by one
    assert [dots.get_label() for dots in late.collections] == [f"class {c}" for c in range(4)]


def test_separate_classes_are_separate_in_the_plane():
    generator = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 20)
    features = 10 * np.eye(3)[classes] + 0.1 * generator.standard_normal((60, 3))
    points = Cloud(features, classes, age=1).places()
    middle = np.stack([points[classes == c].mean(axis=0) for c in range(3)])
    distance = np.linalg.norm(points[:, None] - middle, axis=2)
    assert (distance.argmin(axis=1) == classes).all()


def test_k_is_drawn_with_mean_and_deviation(runs):
    chosen = choose_runs(runs, ["negative=rotation"])
    (axes,) = FIGURES["k"](chosen).axes
    for metric, measure in (("A_AUC", a_auc), ("A_last", a_last)):
        bars = next(b for b in axes.containers if b.get_label() == f"earl: {metric}")
        drawn, _, (deviation,) = bars
        x, y = drawn.get_xdata(), drawn.get_ydata()
        few = [100 * measure(run.history) for run in choose_runs(runs, ["method=earl", "k=2"])]
        (many,) = choose_runs(runs, ["method=earl", "k=15", "negative=rotation"])
        assert x == pytest.approx([2, 15], rel=0.03)  # moved aside a little
        assert y == pytest.approx([fmean(few), 100 * measure(many.history)])
        low, high = deviation.get_segments()[0][:, 1]
        assert (high - low) / 2 == pytest.approx(stdev(few))
    assert axes.containers[-1].get_label() == "bars: ± 1 standard deviation"


def test_settings_of_one_method_are_told_apart_beside_k(tmp_path):
    for k in (5, 25):
        for tau in (0.1, 0.5, 0.9):
            write_run(tmp_path, "earl", 1, [tau], settings={"k": k, "tau": tau})
            write_run(tmp_path, "earl", 2, [1.0], settings={"k": k, "tau": tau})
    (axes,) = FIGURES["k"](find_runs([tmp_path])).axes
    *lines, explained = axes.containers
    assert explained.get_label() == "bars: ± 1 standard deviation"
    drawn = {bars.get_label(): bars[0] for bars in lines}
    assert list(drawn) == [f"earl, tau={tau}: {m}" for tau in (0.1, 0.5, 0.9) for m in MARKS]
    assert len({curve.get_color() for curve in drawn.values()}) == 3
    assert len({(c.get_marker(), c.get_linestyle()) for c in drawn.values()}) == 6
    assert len({tuple(curve.get_xdata()) for curve in drawn.values()}) == 6  # no bar hides another
    for bars in lines:
        heights = [y for segment in bars[2][0].get_segments() for _, y in segment]
        assert min(heights) >= 0 and max(heights) <= 100


def test_the_stream_of_the_lowest_seed_is_drawn(runs):
    figure = FIGURES["stream"](runs)
    density = figure.axes[0]
    title = "shapes (per_class=10), disjoint, seed 1: 10 samples of each class"
    assert density.get_title(loc="left") == title
    assert sorted(label.get_text() for label in density.get_yticklabels()) == [
        f"shape {c}" for c in range(4)
    ]


@pytest.mark.parametrize(("counts", "panels"), [((4, 4, 4), 3), ((4, 4, 3), 4)])
def test_a_stream_shows_the_sizes_of_classes_where_they_differ(counts, panels):
    labels = torch.arange(3).repeat_interleave(torch.tensor(counts))
    figure = picture(labels, Schedule(torch.arange(len(labels))), ["a", "b", "c"], "A stream")
    assert len(figure.axes) == panels  # shares, their bar, classes seen; and sizes
    assert ("4 samples of each class" in figure.axes[0].get_title(loc="left")) == (panels == 3)
    assert any(axes.get_xlabel() == "samples" for axes in figure.axes) == (panels == 4)
