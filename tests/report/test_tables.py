"""Tables: what their cells say, and what is noted below them."""

import json
import shutil

import numpy as np
import pytest

from earl.errors import DataNotFound, InvalidSetting, UnknownName
from earl.evaluation.history import REMEDY
from earl.experiments.runs.records import find_runs
from earl.report.tables import make_table
from earl.report.tables.formats import FORMATS, markdown
from run_folders import EARL, ER, strip_seals, write_run, write_runs, write_summary
from tables_of_runs import body, cell, table_of


def test_cells_are_means_over_seeds_with_their_deviation(folder):
    """ER: A_AUC 40, 50, 60 and A_last 50, 60, 70. EARL: A_AUC 65, 75, 70 and A_last 60, 80, 70."""
    head, _, *rows = body(markdown(table_of(folder)))
    assert head == ["method", "A_AUC", "A_last"]
    assert rows == [
        ["earl", "70.00 ± 5.00 (3)", "70.00 ± 10.00 (3)"],
        ["er", "50.00 ± 10.00 (3)", "60.00 ± 10.00 (3)"],
    ]


def test_real_runs_are_scored_as_they_scored_themselves(few_runs):
    runs = find_runs([few_runs])
    for metric in ("A_AUC", "A_last", "AOA", "forgetting"):
        table = make_table(runs, [metric])
        for method in ("er", "earl"):
            own = [r.summary["metrics"][metric] for r in runs if r.experiment.method == method]
            found = cell(table, method, metric)
            assert list(found.values.values()) == [100 * value for value in own]
            assert found.spread.mean == pytest.approx(100 * np.mean(own))
            assert found.spread.std == pytest.approx(100 * np.std(own, ddof=1))


def test_one_seed_has_no_deviation_and_nowhere_a_nan(tmp_path):
    write_run(tmp_path, "er", 1, [0.25])
    write_run(tmp_path, "earl", 1, [0.5])
    table = table_of(tmp_path, "A_AUC", versus="er")
    rows = body(markdown(table))[2:]
    assert rows == [["earl", "50.00 (1)", "+25.00 (1)"], ["er", "25.00 (1)", "–"]]
    for write in FORMATS.values():
        assert "nan" not in write(table).lower()


def test_differences_are_paired_by_seed(folder):
    """EARL - ER in A_last is 10, 20, 0: mean 10, deviation 10, t(2) = 4.302653."""
    found = cell(table_of(folder, versus="er"), "earl").difference
    assert (found.mean, found.n) == (pytest.approx(10), 3)
    assert found.high - found.mean == pytest.approx(4.302653 * 10 / 3**0.5)
    assert "+10.00 [−14.84, +34.84] (3)" in markdown(table_of(folder, versus="er"))


def test_only_common_seeds_are_compared_and_all_are_averaged(folder):
    write_run(folder, "earl", 4, [0.1, 0.1])
    table = table_of(folder, versus="er")
    assert cell(table, "earl").spread.n == 4 and cell(table, "earl").difference.n == 3
    assert "seed 4 missing: er on shapes, disjoint" in table.notes


def test_a_reference_that_is_missing_or_ambiguous_is_an_error(folder):
    with pytest.raises(UnknownName, match=r"no finished run of 'err'.*did you mean 'er'"):
        table_of(folder, versus="err")
    write_runs(folder, "earl", EARL, settings={"k": 5})
    with pytest.raises(InvalidSetting, match="'earl, k=5', 'earl, k=15'; name one in full"):
        table_of(folder, versus="earl")
    assert cell(table_of(folder, versus="earl, k=5"), "earl, k=15").difference.mean == 0


def test_without_a_common_seed_there_is_a_note_and_no_difference(tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    write_run(tmp_path, "earl", 2, [0.5])
    table = table_of(tmp_path, versus="er")
    assert cell(table, "earl").difference is None
    assert "no common seed with er: earl on shapes, disjoint" in table.notes


def test_costs_are_added_when_asked_for(tmp_path):
    extra = {"updates": 160, "images": 2560, "flops": 3.02e9, "bytes": 44_700_000}
    write_run(tmp_path, "er", 1, [0.5], extra=extra)
    write_run(tmp_path, "er", 2, [0.5], extra=extra | {"images": 2570})
    write_run(tmp_path, "earl", 1, [0.5], extra=extra)
    write_run(tmp_path, "earl", 2, [0.5], extra={"updates": 160})  # an older history
    head, _, older, row = body(markdown(table_of(tmp_path, "A_AUC", costs=True)))
    assert older[2:] == ["160", "–", "–", "–", "2.5 s"]
    assert head[2:] == ["updates", "images trained", "training FLOPs", "bytes held", "time"]
    assert row[2:] == ["160", "2,565", "3.02 GFLOP", "44.7 MB", "2.5 s"]
    (tmp_path / "old").mkdir()
    write_run(tmp_path / "old", "er", 1, [0.5])  # a history that knows no costs
    assert body(markdown(table_of(tmp_path / "old", "A_AUC", costs=True)))[0][2:] == ["time"]


def test_numbers_of_probes_are_shown_as_they_are_at_the_end(tmp_path):
    for seed, (nc1, bias) in {1: (0.012, 0.5), 2: (0.014, -0.25)}.items():
        path = write_run(tmp_path, "er", seed, [0.5, 0.5], extra={"NC1": nc1, "bias": bias})
        file = path / "history.jsonl"
        first, last = file.read_text().splitlines()
        file.write_text(first.replace(f'"bias":{bias}', '"bias":9') + f"\n{last}\n")
        write_summary(path, json.loads((path / "summary.json").read_text()))
        write_run(tmp_path, "scr", seed, [0.5, 0.5], extra={"NC1": 2 * nc1, "training_error": 0.25})
    write_run(tmp_path, "earl", 1, [0.5, 0.5])
    table = table_of(tmp_path, "A_AUC", "NC1", "bias", "training_error", versus="er")
    head, _, earl, er, scr = body(markdown(table))
    assert head[:5] == ["method", "A_AUC", "vs er", "NC1", "vs er"]
    assert er[3:] == ["0.0130 ± 0.0014 (2)", "–", "0.125 ± 0.530 (2)", "–", "–", "–"]
    assert scr[3:5] == ["0.0260 ± 0.0028 (2)", "+0.0130 [+0.0003, +0.0257] (2)"]
    assert scr[7] == "25.00 ± 0.00 (2)" and earl[3:] == ["–"] * 6
    assert "not recorded by all seeds, bias: earl on shapes, disjoint; scr on shapes, disjoint" in (
        table.notes
    )
    assert "NC1, bias at the end of the stream: likewise, not in percent." in markdown(table)
    assert "Percent" not in markdown(table_of(tmp_path, "NC1"))
    over_all = table_of(tmp_path, "bias:mean", "training_error:mean")
    assert cell(over_all, "er", "bias:mean").values == {1: (9 + 0.5) / 2, 2: (9 - 0.25) / 2}
    assert cell(over_all, "scr", "training_error:mean").values == {1: 25, 2: 25}
    assert "bias:mean over all evaluations: likewise" in markdown(over_all)


def test_what_is_asked_about_samples_to_come_has_a_mean_though_nothing_follows_the_end(tmp_path):
    path = write_run(tmp_path, "earl", 1, [0.5, 0.5], extra={"online_stored": 0.25})
    first, last = (path / "history.jsonl").read_text().splitlines()
    last = last.replace('"online_stored":0.25', '"bytes":1')
    (path / "history.jsonl").write_text(f"{first}\n{last}\n")
    write_summary(path, json.loads((path / "summary.json").read_text()))
    table = table_of(tmp_path, "online_stored:mean")
    assert cell(table, "earl", "online_stored:mean").values == {1: 25}
    with pytest.raises(DataNotFound, match=r"earlier ones have: online_stored:mean is their mean"):
        table_of(tmp_path, "online_stored")


def test_a_number_that_no_run_has_is_answered_with_the_command_that_records_it(folder):
    with pytest.raises(DataNotFound, match=r"none of the 6 runs has recorded 'NC2'.*--probe coll"):
        table_of(folder, "NC2")
    with pytest.raises(DataNotFound, match=r"has recorded 'NC2:mean'.*--probe coll"):
        table_of(folder, "NC2:mean")
    with pytest.raises(UnknownName, match="did you mean 'bias'"):
        table_of(folder, "baias")


def test_a_mean_of_a_part_of_the_stream_is_asked_for_by_its_number(folder):
    whole, first, last = (
        cell(table_of(folder, name), "er", name).values
        for name in ("A_AUC", "A_AUC:1/2", "A_AUC:2/2")
    )
    assert first != last
    for seed in whole:
        assert whole[seed] == pytest.approx((first[seed] + last[seed]) / 2)
    assert not table_of(folder, "A_AUC:3/3").cells  # of two evaluations
    for wrong in ("A_AUC:", "A_AUC:0/2", "A_AUC:3/2", "A_AUC:x", "A_new:1/0"):
        with pytest.raises(InvalidSetting, match="named like 2/5"):
            table_of(folder, wrong)
    with pytest.raises(InvalidSetting, match=r"A_last is not of parts.*A_AUC"):
        table_of(folder, "A_last:1/2")


def test_what_a_run_made_again_has_recorded_counts_for_both(folder):
    for seed in ER:
        write_run(folder, "er", seed, ER[seed], probes=("bias",), extra={"bias": 0.5})
        write_run(folder, "er", seed, ER[seed], probes=("collapse",), extra={"NC1": 0.25})
    table = table_of(folder, "A_AUC", "bias", "NC1")
    assert [cell(table, "er", m).spread.mean for m in ("A_AUC", "bias", "NC1")] == [50, 0.5, 0.25]
    assert cell(table, "er", "bias").spread.n == 3


def test_runs_that_have_not_ended_are_left_out_and_named(folder):
    write_run(folder, "er", 4, [0.9], finished=False)
    write_run(folder, "er", 5, [], finished=False)
    for seed in (6, 7):
        file = write_run(folder, "er", seed, [0.9, 0.9]) / "history.jsonl"
        file.write_bytes(file.read_bytes()[:-20])
    strip_seals(file.parent)
    table = table_of(folder)
    assert cell(table, "er").spread.n == 3
    place = "shapes/disjoint/er/seed-"
    assert table.notes == (
        f"left out, not finished (40 of 80 samples): {place}4",
        f"left out, not begun: {place}5",
        f"left out, damaged (history.jsonl is not what it was when the run ended; {REMEDY}): "
        f"{place}6",
        f"left out, its history is torn (it ends at 40 of 80 samples): {place}7",
    )


def test_if_no_run_has_ended_there_is_no_table(tmp_path):
    write_run(tmp_path, "er", 1, [0.5], finished=False)
    with pytest.raises(DataNotFound, match=r"none of the 1 runs has ended.*40 samples.*resume"):
        table_of(tmp_path)


def test_a_missing_seed_is_shown(folder):
    shutil.rmtree(folder / "shapes/disjoint/er/seed-3")
    table = table_of(folder)
    assert body(markdown(table))[3][1] == "45.00 ± 7.07 (2)"
    assert table.notes == ("seed 3 missing: er on shapes, disjoint",)


def test_a_seed_that_has_only_begun_is_not_missing_too(folder):
    (folder / "shapes/disjoint/er/seed-3/summary.json").unlink()
    (note,) = table_of(folder).notes
    assert note.startswith("left out, not finished (80 of 80 samples): ")
