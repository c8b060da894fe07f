"""Tables beside the paper: its numbers, and what our runs have otherwise."""

import pytest

from earl.report.tables.formats import markdown
from earl.report.tables.table import default_metrics
from run_folders import EARL, ER, write_runs
from tables_of_runs import body, cell, table_of


def test_the_papers_number_stands_beside_ours(cifar):
    """The paper's ER has A_AUC 60.13 ± 0.56 on CIFAR-10, Gaussian; ours here is 50."""
    head, _, er, other = body(markdown(table_of(cifar, "A_AUC", paper="main")))
    assert head == ["method", "A_AUC", "paper", "gap"]
    assert er == ["er", "50.00 ± 10.00 (3)", "60.13 ± 0.56", "−10.13"]
    assert other[2:] == ["–", "–"]  # a control of ours
    assert table_of(cifar, paper="main").notes == ()  # the recipe of CIFAR-10


def test_settings_that_are_not_the_papers_are_listed(tmp_path):
    small = {"width": 16, "limit": 5000}
    write_runs(tmp_path, "er", ER, dataset="cifar10", stream="gaussian", settings=small)
    assert table_of(tmp_path, paper="main").notes == (
        "not the paper's settings: er on cifar10 (limit=5000, width=16), gaussian: "
        "limit 5000 (recipe: 0), width 16 (recipe: 64)",
    )


def test_the_papers_d_is_4096_and_the_code_s_1024_is_listed(tmp_path):
    given = {"dataset": "cifar100", "stream": "disjoint"}
    write_runs(tmp_path / "paper", "earl", EARL, settings={"d": 4096}, **given)
    table = table_of(tmp_path / "paper", "A_AUC", paper="main")
    assert cell(table, "earl", "A_AUC").paper is not None and table.notes == ()
    write_runs(tmp_path / "code", "earl", EARL, settings={"d": 1024}, **given)
    assert table_of(tmp_path / "code", "A_AUC", paper="main").notes == (
        "not the paper's settings: earl, d=1024 on cifar100, disjoint: d 1024 (recipe: 4096)",
    )


def test_a_setting_that_makes_the_papers_row_is_not_listed(tmp_path):
    given = {"dataset": "cifar10", "stream": "disjoint", "settings": {"negative": "cutmix"}}
    write_runs(tmp_path, "earl", EARL, **given)
    table = table_of(tmp_path, "A_AUC", paper="transform_comp")
    assert cell(table, "earl, negative=cutmix", "A_AUC").paper is not None and table.notes == ()
    table = table_of(tmp_path, "A_AUC", paper="main")  # the paper's EARL rotates
    assert cell(table, "earl, negative=cutmix", "A_AUC").paper is None


def test_a_matched_table_says_that_ours_is_not(cifar):
    (note,) = table_of(cifar, "AOA", paper="main_const").notes
    assert note.endswith("er on cifar10, gaussian: budget matched in nothing (paper: flops)")


def test_what_others_were_matched_to_needs_no_match_itself(cifar):
    write_runs(cifar, "earl", EARL, dataset="cifar10", stream="gaussian", match="flops", to="er")
    notes = table_of(cifar, "AOA", paper="main_const").notes
    assert notes == ("match=flops, to=er: earl on cifar10, gaussian",)


def test_a_matched_run_is_another_row_and_is_noted(folder):
    write_runs(folder, "earl", EARL, match="flops", to="er")
    table = table_of(folder, versus="er")
    assert table.rows == ("earl", "earl, match=flops, to=er", "er")
    assert table.notes == ("match=flops, to=er: earl, match=flops, to=er on shapes, disjoint",)
    alone = table_of(folder, where=["match=flops"])
    assert alone.rows == ("earl",)
    assert alone.notes == ("match=flops, to=er: earl on shapes, disjoint",)


def test_on_clear_the_papers_number_stands_beside_the_reading_of_all_buckets(tmp_path):
    given = {"dataset": "clear-10", "stream": "clear", "match": "flops", "to": "er"}
    write_runs(tmp_path, "er", ER, extra={"accuracy_all_domains": 0.5}, **given)
    table = table_of(tmp_path, "A_AUC", "A_AUC_all", paper="clear")
    assert cell(table, "er", "A_AUC").paper is None
    assert cell(table, "er", "A_AUC_all").gap == pytest.approx(50 - 70.70)
    assert table.notes[-1] == (
        "the paper's A_AUC in clear is over all time buckets, beside A_AUC_all; "
        "A_AUC here is over those that have been seen"
    )
    assert default_metrics("clear") == ("A_AUC", "A_last", "A_AUC_all", "A_last_all")
    assert default_metrics("main") == default_metrics(None) == ("A_AUC", "A_last")
    assert "seen" not in " ".join(table_of(tmp_path, "A_last_all", "AOA", paper="clear").notes)


def test_where_the_paper_has_nothing_that_is_said(folder):
    table = table_of(folder, paper="main")
    assert table.notes == ("the paper's table main has no number for these runs",)
    assert body(markdown(table))[0] == ["method", "A_AUC", "A_last"]
