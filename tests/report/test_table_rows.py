"""The rows and columns of a table: which runs are averaged, and which are refused."""

import shutil
from dataclasses import replace

import pytest

from earl.errors import MixedRuns, UnknownName
from earl.experiments.runs.records import find_runs
from earl.report.groups import display_value, group_runs
from earl.report.tables import make_table
from earl.report.tables.formats import FORMATS, markdown
from run_folders import EARL, ER, write_run, write_runs
from tables_of_runs import body, cell, table_of


def test_settings_are_named_where_one_method_has_several(folder):
    write_runs(folder, "earl", EARL, settings={"k": 5})
    write_runs(folder, "earl", EARL, settings={"k": 5, "tau": 0.5})
    assert table_of(folder).rows == (
        "earl, k=5, tau=0.5",
        "earl, k=5, tau=0.9",
        "earl, k=15, tau=0.9",
        "er",
    )


def test_what_a_recipe_gives_one_data_set_is_not_named(folder):
    """digits has d = 64, shapes d = 16: that is the same method with the settings of each."""
    write_runs(folder, "earl", EARL, dataset="digits")
    table = table_of(folder)
    assert table.rows == ("earl", "er")
    assert [str(column) for column in table.columns] == ["digits, disjoint", "shapes, disjoint"]
    assert body(markdown(table))[3] == ["er", "–", "–", "50.00 ± 10.00 (3)", "60.00 ± 10.00 (3)"]


def test_a_run_with_changed_settings_never_goes_under_the_plain_name(tmp_path):
    """Its own settings stand in the row, what a comparison shares in the column."""
    write_runs(tmp_path, "er", ER, settings={"memory_size": 100, "every": 20})
    given = {"k": 25, "memory_size": 100, "every": 20}
    write_runs(tmp_path, "earl", EARL, settings=given)
    table = table_of(tmp_path, versus="er")
    assert table.rows == ("earl, k=25", "er")
    (column,) = table.columns
    assert str(column) == "shapes (every=20, memory_size=100), disjoint"
    for write in FORMATS.values():
        assert "every=20, memory_size=100" in write(table).replace(r"\_", "_")
    assert table_of(tmp_path, versus="earl").rows == table.rows  # a method with one row


def test_what_was_changed_for_one_data_set_only_is_named(folder):
    write_runs(folder, "earl", EARL, dataset="digits", settings={"k": 5})
    assert table_of(folder).rows == ("earl, k=5", "earl, k=15", "er")


def test_settings_of_data_and_stream_make_other_columns(folder):
    write_runs(folder, "er", ER, settings={"limit": 80})
    write_runs(folder, "er", ER, settings={"tasks": 4})
    assert [str(column) for column in table_of(folder).columns] == [
        "shapes, disjoint",
        "shapes, disjoint (tasks=4)",
        "shapes (limit=80), disjoint",
    ]


def test_stream_files_of_one_name_are_told_apart_by_their_content(tmp_path):
    for seed, place in ((1, "here"), (2, "there")):
        for digest in ("0123456789", "abcdefghij"):
            stream = {"stream": f"file:/{place}/s.json", "stream_sha256": digest}
            write_run(tmp_path / digest, "er", seed, [0.5], **stream)
    table = table_of(tmp_path)
    assert [str(column) for column in table.columns] == [
        "shapes, file-s (sha256=01234567)",
        "shapes, file-s (sha256=abcdefgh)",
    ]
    assert {found.spread.n for found in table.cells.values()} == {2}  # a file may be moved
    (column,) = table_of(tmp_path / "0123456789").columns
    assert str(column) == "shapes, file-s"


def test_values_are_named_without_places():
    assert [display_value(v) for v in (5, 0.5, True, "", "/home/me/list.txt")] == [
        "5",
        "0.5",
        "true",
        "none",
        "list.txt",
    ]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("memory_size", {"settings": {"memory_size": 40}}),
        ("lr", {"settings": {"lr": 0.01}}),
        ("iterations", {"settings": {"iterations": 2}}),
        ("width", {"settings": {"width": 16}}),
        ("padding", {"settings": {"padding": 2}}),
        ("every", {"settings": {"every": 20}}),
        ("earl", {"env": {"earl": "9.9"}}),
        ("torch", {"env": {"torch": "1.0"}}),
        ("device", {"env": {"device": "cuda"}}),
        ("data train_images", {"data": {"train_images": 80}}),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(name, given, tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    other = write_run(tmp_path, "earl", 2, [0.5], **given)
    with pytest.raises(MixedRuns) as refused:
        table_of(tmp_path)
    message = str(refused.value)
    assert str(tmp_path / "shapes/disjoint/er/seed-1") in message and str(other) in message
    assert f"differ in {name} (" in message and "--allow-mixed" in message
    table = table_of(tmp_path, allow_mixed=True)
    assert any(note.startswith(f"mixed in shapes, disjoint: {name} ") for note in table.notes)


def test_one_group_of_different_versions_is_refused_too(tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    write_run(tmp_path, "er", 2, [0.7], env={"torch": "1.0"})
    with pytest.raises(MixedRuns, match=r"differ in torch \("):
        table_of(tmp_path)
    assert cell(table_of(tmp_path, allow_mixed=True), "er").spread.n == 2


def test_a_swept_setting_can_be_chosen_or_becomes_part_of_the_row(folder):
    for method in ("er", "earl"):
        write_runs(folder, method, ER, settings={"memory_size": 100})
    with pytest.raises(MixedRuns, match="--where memory_size="):
        table_of(folder)
    assert table_of(folder, where=["memory_size=100"]).rows == ("earl", "er")
    assert table_of(folder, allow_mixed=True).rows == (
        "earl, memory_size=20",
        "earl, memory_size=100",
        "er, memory_size=20",
        "er, memory_size=100",
    )


def test_columns_need_not_share_their_settings(folder):
    write_runs(folder, "er", ER, stream="gaussian", settings={"memory_size": 100})
    assert len(table_of(folder).columns) == 2


def test_one_seed_twice_is_refused_even_so(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("copy")
    shutil.copytree(folder / "shapes", other / "shapes")
    with pytest.raises(MixedRuns, match="same experiment with the same seed"):
        make_table(find_runs([folder, other]), allow_mixed=True)


def test_a_run_made_again_with_a_probe_counts_once(folder):
    before = table_of(folder)
    write_run(folder, "er", 1, ER[1], probes=("collapse",))
    assert table_of(folder).cells == before.cells


def test_unknown_metrics_and_tables_get_a_suggestion(folder):
    with pytest.raises(UnknownName, match="did you mean 'A_AUC'"):
        table_of(folder, "A_AUCC")
    with pytest.raises(UnknownName, match="did you mean 'main'"):
        table_of(folder, paper="mainn")


def test_runs_made_before_a_shared_setting_came_belong_with_those_made_since(tmp_path):
    """`backbone` came later; another network than the one there was then stays another."""
    for seed, frozen in ((1, False), (2, False), (3, True)):
        write_run(tmp_path, "er", seed, [0.3, 0.5], settings={"frozen": True} if frozen else {})
    one, two, other = sorted(find_runs([tmp_path]), key=lambda run: run.experiment.seed)
    settings = {n: v for n, v in one.settings.items() if n not in ("backbone", "frozen")}
    earlier = replace(one, settings=settings)
    ((group,), _) = group_runs([earlier, two])
    assert group.row == "er" and set(group.runs) == {1, 2}
    with pytest.raises(MixedRuns, match=r"they differ in frozen \(false and true\)"):
        group_runs([earlier, other])
