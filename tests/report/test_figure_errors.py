"""What cannot be drawn is said in one line, with the command that helps."""

import pytest

from earl.errors import DataNotFound, MixedRuns
from earl.experiments.catalogue import FIGURES
from earl.experiments.runs.records import choose_runs, find_runs
from run_folders import write_run


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


def test_that_command_makes_the_figure(few_runs, tmp_path, earl):
    with pytest.raises(DataNotFound) as error:
        FIGURES["bias"](choose_runs(find_runs([few_runs]), ["method=er"]))
    words = str(error.value).partition(": earl ")[2].split()
    assert earl(*words, "--out", tmp_path, "--threads", 1)[0] == 0
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


def test_runs_that_have_not_ended_are_not_drawn_but_named(tmp_path, earl):
    write_run(tmp_path, "er", 1, [0.5], finished=False)
    with pytest.raises(DataNotFound, match="earl resume"):
        FIGURES["curves"](find_runs([tmp_path]))
    write_run(tmp_path, "er", 2, [0.5, 0.6])
    words = ("figure", "curves", tmp_path, "-o", tmp_path / "curves.svg", "--title", "My title")
    code, out, err = earl(*words)
    assert (code, out) == (0, f"{tmp_path / 'curves.svg'}\n") and "not finished" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure", "curvs", "."], "did you mean 'curves'?"),
        (["figure", "curves", ".", "-o", "x.jpg"], "must end in .png, .pdf or .svg"),
        (["figure", "curves", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_a_wrong_command_line_is_one_line_of_error(words, message, monkeypatch, tmp_path, earl):
    monkeypatch.chdir(tmp_path)
    code, out, err = earl(*words)
    assert code == 1 and out == "" and message in err and len(err.splitlines()) == 1
