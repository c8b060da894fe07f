"""Finding and reading runs: whole, torn, damaged, unfinished, and chosen by what they are."""

import shutil

import pytest

from earl.errors import DataNotFound, EarlError, InvalidSetting, UnknownName
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import choose_runs, find_runs
from run_folders import write_run


def names(runs):
    return [run.name for run in runs]


def test_runs_are_found_at_any_depth_and_read_as_they_were_written(few_runs):
    runs = find_runs([few_runs])
    place = "shapes,per_class=10/disjoint"
    assert names(runs) == [
        f"{place}/{method},every=10/seed-{seed}" for method in ("earl", "er") for seed in (1, 2)
    ]
    for run in runs:
        whole = RunDirectory(run.path)
        assert run.experiment.as_dict() == whole.experiment.as_dict()
        assert run.history == whole.history and len(run.history) == 4
        assert run.settings == whole.experiment.values()
        assert run.finished and run.samples == 40
        assert run.summary == whole.summary and run.seconds == whole.summary["seconds"]
        assert run.data["train_images"] == 40 and run.environment["device"] == "cpu"


def test_reading_changes_nothing(few_runs):
    def state():
        return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in few_runs.rglob("*")}

    before = state()
    for run in find_runs([few_runs]):
        assert run.history and run.changed
    assert state() == before


def test_a_run_is_found_once_however_often_its_folder_is_named(few_runs, tmp_path):
    deeper, link = few_runs / "shapes,per_class=10", tmp_path / "link"
    link.symlink_to(few_runs)
    assert len(find_runs([few_runs, deeper, link])) == 4


def test_a_run_directory_itself_may_be_named(few_runs):
    path = few_runs / "shapes,per_class=10/disjoint/er,every=10/seed-2"
    (run,) = find_runs([path])
    assert run.name == "shapes,per_class=10/disjoint/er,every=10/seed-2"


def test_a_folder_without_runs_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DataNotFound, match=r"no runs in .*earl run --out"):
        find_runs([tmp_path])
    with pytest.raises(DataNotFound, match=r"there is no folder .*nowhere"):
        find_runs([tmp_path / "nowhere"])


def test_a_run_stands_where_its_last_whole_line_says(tmp_path):
    path = write_run(tmp_path, "er", 1, [0.5, 0.6], finished=False)
    write_run(tmp_path, "er", 2, [], finished=False)
    begun, new = find_runs([tmp_path])
    assert (begun.finished, begun.samples) == (False, 80)
    assert (new.finished, new.samples, new.history) == (False, 0, [])
    file = path / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    torn, _ = find_runs([tmp_path])
    assert torn.samples == 40


def test_a_finished_run_whose_last_line_is_torn_is_not_finished(tmp_path):
    path = write_run(tmp_path, "er", 1, [0.5, 0.6])
    assert find_runs([tmp_path])[0].finished
    file = path / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-1])
    assert not find_runs([tmp_path])[0].finished


def test_a_damaged_line_is_an_error_that_names_it(tmp_path):
    path = write_run(tmp_path, "er", 1, [0.5, 0.6, 0.7])
    lines = (path / "history.jsonl").read_bytes().splitlines(keepends=True)
    (path / "history.jsonl").write_bytes(lines[0] + b"{}\n" + lines[2])
    (run,) = find_runs([tmp_path])
    with pytest.raises(EarlError, match=r"seed-1.history\.jsonl, line 2 "):
        assert run.history


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not the record of a run"),
        (b"{}", "is not the record of a run; put the file back"),
        (b'{"format": 99}', "has format 99; this earl reads formats 1 to 2"),
        (b'{"format": 1, "experiment": 3}', "is not the record of a run"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(content, message, tmp_path):
    path = write_run(tmp_path, "er", 1, [0.5])
    (path / "experiment.json").write_bytes(content)
    with pytest.raises(EarlError, match=r"seed-1.experiment\.json.*" + message):
        find_runs([tmp_path])


def test_what_was_changed_is_told_from_recipe_and_default(tmp_path):
    write_run(tmp_path, "earl", 1, [0.5], settings={"k": 5, "d": 16, "lr": 0.01})
    (run,) = find_runs([tmp_path])
    assert run.changed == {"k": 5, "lr": 0.01}  # d = 16 is the recipe of shapes
    assert run.of("method")["k"] == 5 and "lr" not in run.of("method", "network")


def test_ones_own_data_are_named_without_their_place(tmp_path):
    write_run(tmp_path, "er", 1, [0.5], dataset=f"folder:{tmp_path}/photos")
    (run,) = find_runs([tmp_path])
    assert run.dataset == "folder-photos"


@pytest.fixture
def some(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path, "er", seed, [0.5])
        write_run(tmp_path, "er", seed, [0.5], settings={"memory_size": 40, "lr": 0.01})
        write_run(tmp_path, "earl", seed, [0.5], settings={"k": 5, "correction": False})
        write_run(tmp_path, "earl", seed, [0.5], match="flops", to="er")
    return find_runs([tmp_path])


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ([], 12),
        (["method=er"], 6),
        (["method=er", "method=earl"], 12),
        (["method=er", "seed=2"], 2),
        (["seed=2", "seed=3"], 8),
        (["match=none"], 9),
        (["match=flops"], 3),
        (["memory_size=40"], 3),
        (["memory_size=40.0"], 3),
        (["lr=1e-2"], 3),
        (["k=5"], 3),  # ER has no k
        (["correction=false"], 3),
        (["dataset=shapes", "stream=disjoint"], 12),
        (["device=cpu"], 12),
    ],
)
def test_runs_are_chosen_by_name_seed_and_setting(where, count, some):
    assert len(choose_runs(some, where)) == count


def test_a_wrong_choice_is_an_error_that_helps(some):
    with pytest.raises(UnknownName, match="named 'memory'; did you mean 'memory_size'"):
        choose_runs(some, ["memory=3"])
    with pytest.raises(DataNotFound, match="no run fits --where seed=7; the runs have seed: 1, 2"):
        choose_runs(some, ["seed=7"])
    with pytest.raises(InvalidSetting, match="must have the form NAME=VALUE"):
        choose_runs(some, ["seed"])


def test_snapshots_are_not_searched(few_runs, tmp_path):
    """A run may hold a great many files; its folders are not walked."""
    shutil.copytree(few_runs, tmp_path / "runs")
    for path in (tmp_path / "runs").rglob("snapshots"):
        (path / "experiment.json").write_text("not a run")
    assert len(find_runs([tmp_path])) == 4


def test_runs_from_before_a_method_had_a_setting_are_of_one_kind_with_later_ones(tmp_path):
    """er-memory-only had one policy before it had the setting of that name."""
    for seed in (1, 2):
        write_run(tmp_path, "er-memory-only", seed, [0.5])
    before, after = find_runs([tmp_path])
    del before.settings["policy"]
    assert before.kind == after.kind
    assert choose_runs([before, after], ["policy=greedy_balanced"]) == [before, after]
    with pytest.raises(DataNotFound):
        choose_runs([before], ["policy=reservoir"])
