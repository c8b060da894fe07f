"""Figures: each is drawn from real runs, and shows what their histories say."""

import json
import re
import sys
from itertools import pairwise
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from matplotlib.image import AxesImage
from matplotlib.text import Text
from sklearn.manifold import TSNE

from earl.cli.app import main
from earl.data.streams import Schedule
from earl.errors import DataNotFound, EarlError, InvalidSetting, MixedRuns
from earl.evaluation.metrics import a_auc, a_last
from earl.experiments.catalogue import FIGURES, METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import choose_runs, find_runs
from earl.methods.earl.earl import NEGATIVES
from earl.report.figures import COLOURS, cosines
from earl.report.figures.canvas import save
from earl.report.figures.colours import colour_of, looks
from earl.report.figures.cosines import nearest, newest_of
from earl.report.figures.curves import moving_average, window
from earl.report.figures.effect_of_k import MARKS
from earl.report.figures.stream import picture
from earl.report.figures.tsne import Cloud
from earl.report.groups import group_runs
from earl.report.page.charts import charts_of, looks_of
from run_folders import write_run, write_summary

ALL = ("training-error", "bias", "cosines", "features")
SMALL = {"per_class": 10, "every": 5, "depth": 8, "width": 4, "iterations": 0.5}
RUNS = [  # method, seed, settings, probes
    ("vanilla-etf", 1, {}, ALL),
    ("vanilla-etf", 2, {}, ALL),
    ("earl", 1, {}, ALL),
    ("earl", 1, {"negative": "noise"}, ALL),
    ("earl", 1, {"k": 2}, ()),
    ("earl", 2, {"k": 2}, ()),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with runs of 40 samples, two classes per task. Do not change it."""
    folder = tmp_path_factory.mktemp("figures")
    for method, seed, settings, probes in RUNS:
        experiment = Experiment(
            method=method,
            dataset="shapes",
            stream="disjoint",
            seed=seed,
            settings={**SMALL, **settings},
            probes=probes,
        )
        assert list(RunDirectory(folder / experiment.path(), experiment).run(threads=1))
    return folder


@pytest.fixture
def runs(folder):
    return find_runs([folder])


def earl(monkeypatch, capsys, *words):
    """Run the command line in this process; return its exit code and what it printed."""
    monkeypatch.setattr(sys, "argv", ["earl", *map(str, words)])
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    return code, *capsys.readouterr()


@pytest.mark.parametrize("name", FIGURES.names())
def test_every_figure_becomes_a_picture(folder, name, tmp_path, monkeypatch, capsys):
    path = tmp_path / f"{name}.png"
    code, out, err = earl(monkeypatch, capsys, "figure", name, folder, "-o", path, "--json")
    assert code == 0, err
    assert json.loads(out) == {"figure": name, "runs": len(RUNS), "picture": str(path)}
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


# ---- over the stream


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
    small = "every=5, iterations=0.5, per_class=10, width=4"
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


# ---- heat maps, t-SNE, k, stream


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
    assert late.get_title() == f"earl, negative=noise, {extra['feature_age']} samples after class 3"
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


# ---- what cannot be drawn


@pytest.mark.parametrize(
    ("name", "probe"),
    [
        ("tpt", "training-error"),
        ("bias", "bias"),
        ("cosine", "cosines"),
        ("transforms", "cosines"),
        ("tsne", "features"),
    ],
)
def test_runs_without_the_probe_are_answered_with_the_command_that_records_it(
    few_runs, name, probe
):
    with pytest.raises(DataNotFound) as error:
        FIGURES[name](find_runs([few_runs]))
    command = (
        "earl run --method earl --dataset shapes --stream disjoint --seed 1 "
        f"--set every=10 --set per_class=10 --probe {probe}"
    )
    assert str(error.value).endswith(command)


def test_that_command_makes_the_figure(few_runs, tmp_path, monkeypatch, capsys):
    with pytest.raises(DataNotFound) as error:
        FIGURES["bias"](choose_runs(find_runs([few_runs]), ["method=er"]))
    words = str(error.value).partition(": earl ")[2].split()
    assert earl(monkeypatch, capsys, *words, "--out", tmp_path, "--threads", 1)[0] == 0
    both = find_runs([few_runs, tmp_path])
    assert len(FIGURES["bias"](both).axes) == 1
    curves = FIGURES["curves"](both).axes[0].get_lines()  # the run made twice is there once
    labels = {line.get_label().partition(",")[0] for line in curves}
    assert labels == {"er (2)", "earl (2)", "task boundary"}


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        ("k", ["k=2"], r"k = 2 only; .*--set k=5"),
        ("k", ["method=vanilla-etf"], r"no run of a method that has one; .*--method earl .*k=5"),
        ("transforms", ["negative=noise"], r"is noise; .*--method earl .*--set negative=rotation"),
        ("transforms", ["method=vanilla-etf"], r"no run with any; .*--method earl "),
    ],
)
def test_too_few_settings_are_answered_with_a_command(runs, name, where, message):
    with pytest.raises(DataNotFound, match=message):
        FIGURES[name](choose_runs(runs, where))


def test_a_single_record_is_not_early_and_late(runs):
    (run,) = choose_runs(runs, ["negative=noise"])
    run.history[:-1] = [e for e in run.history[:-1] if "features" not in e.extra]
    with pytest.raises(DataNotFound, match=r"only once since class 3 .*--set every=1 "):
        FIGURES["tsne"]([run])


@pytest.mark.parametrize("name", ["cosine", "stream"])
def test_some_figures_show_one_stream_only(runs, tmp_path, name):
    extra = {"cosines": [[[1.0]]], "cosine_classes": [0], "cosine_ages": [3]}
    write_run(tmp_path, "er", 1, [0.5], stream="gaussian", extra=extra)
    with pytest.raises(MixedRuns, match="--where stream="):
        FIGURES[name]([*runs, *find_runs([tmp_path])], allow_mixed=True)


def test_runs_that_have_not_ended_are_not_drawn_but_named(tmp_path, monkeypatch, capsys):
    write_run(tmp_path, "er", 1, [0.5], finished=False)
    with pytest.raises(DataNotFound, match="earl resume"):
        FIGURES["curves"](find_runs([tmp_path]))
    write_run(tmp_path, "er", 2, [0.5, 0.6])
    words = ("figure", "curves", tmp_path, "-o", tmp_path / "curves.svg", "--title", "My title")
    code, out, err = earl(monkeypatch, capsys, *words)
    assert (code, out) == (0, f"{tmp_path / 'curves.svg'}\n") and "not finished" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure", "curvs", "."], "did you mean 'curves'?"),
        (["figure", "curves", ".", "-o", "x.jpg"], "must end in .png, .pdf or .svg"),
        (["figure", "curves", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_a_wrong_command_line_is_one_line_of_error(words, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = earl(monkeypatch, capsys, *words)
    assert code == 1 and out == "" and message in err and len(err.splitlines()) == 1


# ---- colours


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
