"""Published tables say what the records say, and the pages of this repository are not stale."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from earl.cli.app import app
from earl.cli.demo import RATES
from earl.errors import DataNotFound, EarlError, InvalidSetting, MixedRuns
from earl.experiments.runs.records import find_runs
from earl.experiments.sweeps.sweepfile import SweepFile, find
from earl.report.export import export_records
from earl.report.paper import figures
from earl.report.results.description import Description
from earl.report.results.pages import stale_pages, write_pages
from earl.report.results.sheets import best_column
from run_folders import write_run

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = """
pages = ["page.md"]

[table.small]
runs = "small"
command = "earl sweep small"
metrics = ["A_AUC", "A_last"]
rows = ["er", "earl", "scr"]
versus = "`er`"
compared = ["A_AUC"]
settings = ["lr"]
"""
PAGE = "Before.\n\n<!-- table: small -->\nold\n<!-- end of table -->\n\nAfter.\n"


def published(folder: Path, described: str = DESCRIBED, page: str = PAGE) -> Description:
    """Return a repository of two methods, two seeds each, and a page with a table of them."""
    for method, gain in (("er", 0.0), ("earl", 0.1)):
        for seed in (1, 2):
            accuracies = [0.2 + gain * seed, 0.4 + gain * seed]
            write_run(folder / "results" / "small", method, seed, accuracies)
    (folder / "results" / "tables.toml").write_text(described, encoding="utf-8")
    (folder / "page.md").write_text(page, encoding="utf-8")
    return Description.open(folder / "results" / "tables.toml")


def test_a_place_that_names_a_method_has_one_more_row_and_no_row_twice(tmp_path: Path) -> None:
    described = DESCRIBED.replace('rows = ["er", "earl", "scr"]', 'rows = ["er"]')
    page = "".join(PAGE.replace("small", f"small {name}") for name in ("earl", "er"))
    write_pages(published(tmp_path, described, page))
    of_earl, of_er = (tmp_path / "page.md").read_text(encoding="utf-8").split("After.\nBefore.")
    assert "| `earl` | 0.0003 | 45.0" in of_earl and "| `er` | 0.0003" in of_earl
    assert of_er.count("| `er` |") == 1 and "earl` |" not in of_er


def test_a_table_has_means_deviations_paired_differences_and_what_was_not_run(
    tmp_path: Path,
) -> None:
    write_pages(published(tmp_path))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.startswith("Before.\n") and text.endswith("After.\n") and "old" not in text
    # by hand: A_AUC of er is 30 twice; of earl 40 and 50, so +10 and +20, s = 7.07, t = 12.706
    assert "| `er` | 0.0003 | 30.0 ± 0.0 (2) | – | 40.0 ± 0.0 (2) | – |" in text
    line = "| `earl` | 0.0003 | 45.0 ± 7.1 (2) | +15.0 [−48.5, +78.5], 2 of 2 | 55.0 ± 7.1 (2) |"
    assert line in text
    assert "| `scr` | not run yet |" in text
    assert "streams of 80 samples, seeds 1, 2" in text and "`earl sweep small`" in text


def test_costs_that_are_asked_for_have_columns(tmp_path: Path) -> None:
    write_pages(published(tmp_path, DESCRIBED + 'costs = ["bytes", "flops"]\n'))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| A_last | bytes | training |\n" in text
    with pytest.raises(InvalidSetting, match="the cost 'byte'; did you mean 'bytes'"):
        write_pages(published(tmp_path / "2", DESCRIBED + 'costs = ["byte"]\n'))


def test_a_page_that_was_filled_is_not_stale_until_a_number_in_it_changes(tmp_path: Path) -> None:
    description = published(tmp_path)
    page = tmp_path / "page.md"
    assert write_pages(description) == [page]
    assert write_pages(description) == []
    page.write_text(page.read_text("utf-8").replace("45.0", "46.0"), encoding="utf-8")
    assert list(stale_pages(description)) == [page]


def test_the_best_of_a_grid_is_bold_by_the_runs_that_choose(tmp_path: Path) -> None:
    held_out = {"validation": 0.2}
    for lr, test, held in ((1e-3, 0.9, 0.1), (1e-2, 0.3, 0.5)):
        for settings, accuracy in (({}, test), (held_out, held)):
            given = {"lr": lr, **settings}
            write_run(tmp_path / "results" / "small", "er", 1, [accuracy], settings=given)
    columns = ", ".join(f'{{label = "{lr}", where = ["lr={lr}"]}}' for lr in (0.001, 0.01))
    described = f"""
pages = ["page.md"]
[table.small]
kind = "grid"
runs = "small"
command = "earl sweep small"
where = ["validation=0"]
best_by = ["validation=0.2"]
rows = ["er"]
columns = [{columns}]
"""
    (tmp_path / "results" / "tables.toml").write_text(described, encoding="utf-8")
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    write_pages(Description.open(tmp_path / "results" / "tables.toml"))
    assert "| `er` | 90.0 (1) | **30.0 (1)** |" in (tmp_path / "page.md").read_text("utf-8")


def test_differences_are_of_common_seeds_alone(tmp_path: Path) -> None:
    described = """
pages = ["page.md"]
[table.small]
kind = "differences"
runs = "small"
command = "earl sweep small"
pairs = [{label = "vectors", plus = ["method=earl"], minus = ["method=er"]}]
columns = [{label = "disjoint", where = ["stream=disjoint"]}, {label = "none", where = ["lr=7"]}]
"""
    write_run(tmp_path / "results" / "small", "er", 3, [0.9])
    write_pages(published(tmp_path, described))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| vectors | +15.0 [−48.5, +78.5], 2 of 2 | – |" in text
    assert "seeds 1, 2." in text


def test_a_column_may_have_a_metric_of_its_own(tmp_path: Path) -> None:
    columns = """columns = [
    {label = "all"}, {label = "last half", metric = "A_AUC:2/2"}, {label = "none", metric = "NC1"},
]"""
    described = f"""
pages = ["page.md"]
[table.small]
kind = "grid"
runs = "small"
command = "earl sweep small"
rows = ["scr"]
{columns}
[table.less]
kind = "differences"
runs = "small"
command = "earl sweep small"
pairs = [{{label = "less", plus = ["method=scr"], minus = ["method=er"]}}]
{columns}
"""
    write_run(tmp_path / "results" / "small", "scr", 1, [0.5, 0.6])
    write_pages(published(tmp_path, described, PAGE + PAGE.replace("small", "less")))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| A_AUC | all | last half | none |" in text
    assert "| `scr` | 55.0 (1) | 60.0 (1) | – |" in text
    assert "| less | +25.0, 1 of 1 | +20.0, 1 of 1 | – |" in text
    wrong = described.replace('"scr"]', '{label = "x", metric = "A_last"}]')
    with pytest.raises(InvalidSetting, match="table small: a column or a pair has a metric"):
        published(tmp_path / "2", wrong)


def test_both_sides_of_a_difference_may_have_metrics_of_their_own(tmp_path: Path) -> None:
    described = """
pages = ["page.md"]
[table.small]
kind = "differences"
runs = "small"
command = "earl sweep small"
columns = [{label = "all", where = []}]
pairs = [
    {label = "gain", plus = ["method=scr"], plus_metric = "bias", minus = ["method=scr"]},
    {label = "loss", plus = ["method=scr"], minus = ["method=scr"], minus_metric = "bias:mean"},
    {label = "none", plus = ["method=er"], plus_metric = "bias", minus = ["method=scr"]},
]
"""
    for seed, bias in ((1, 60.0), (2, 64.0)):
        extra = {"bias": bias}
        write_run(tmp_path / "results" / "small", "scr", seed, [0.5, 0.6], extra=extra)
    write_pages(published(tmp_path, described))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| gain | +7.0 [−18.4, +32.4], 2 of 2 |" in text
    assert "| loss | −7.0 [−32.4, +18.4], 0 of 2 |" in text
    assert "| none | – |" in text


@pytest.mark.parametrize(
    ("before", "after", "error", "word"),
    [
        ('rows = ["er"', 'rowz = ["er"', InvalidSetting, "rows"),
        ('runs = "small"', 'kind = "grids"\nruns = "small"', InvalidSetting, "grid"),
        ('command = "earl sweep small"', "", InvalidSetting, "command"),
        ("[table.small]", "[table.large]", InvalidSetting, "large"),
        ('["page.md"]', '["pages.md"]', DataNotFound, "pages.md"),
        ('"`er`"', '"`er-mir`"', InvalidSetting, "no row"),
        ('"er", ', '{label = "all", where = []}, ', MixedRuns, "say which"),
        ("pages =", "pages ==", InvalidSetting, "TOML"),
    ],
)
def test_what_is_wrong_in_a_description_is_named(
    tmp_path: Path, before: str, after: str, error: type[EarlError], word: str
) -> None:
    assert before in DESCRIBED
    with pytest.raises(error, match=word):
        stale_pages(published(tmp_path, DESCRIBED.replace(before, after)))


def test_records_to_keep_have_no_places_and_their_seals_hold(tmp_path: Path) -> None:
    data = {"source": "/home/somebody/data/cifar-10-batches-bin (binary)"}
    path = write_run(tmp_path / "runs", "er", 1, [0.5, 0.6], data=data)
    (path / "log.txt").write_text("said")
    write_run(tmp_path / "runs", "er", 2, [0.5], finished=False)
    (written,) = export_records(find_runs([tmp_path / "runs"]), tmp_path / "results")
    files = sorted(file.name for file in written.iterdir())
    assert files == ["experiment.json", "history.jsonl", "summary.json"]
    assert "somebody" not in (written / "experiment.json").read_text("utf-8")
    (kept,) = find_runs([tmp_path / "results"])
    (original, _) = find_runs([tmp_path / "runs"])
    assert kept.finished and not kept.damage and kept.sealed
    assert (kept.name, kept.kind, kept.history) == (original.name, original.kind, original.history)


def test_the_command_checks_writes_and_says_what_it_did(tmp_path: Path) -> None:
    file = str(published(tmp_path).path)
    stale = CliRunner().invoke(app, ["results", file, "--check"])
    assert (stale.exit_code, "page.md" in stale.stderr) == (1, True)
    written = CliRunner().invoke(app, ["results", file, "--json"])
    assert json.loads(written.stdout) == {"written": [(tmp_path / "page.md").as_posix()]}
    assert CliRunner().invoke(app, ["results", file, "--check"]).exit_code == 0


def test_the_pages_of_this_repository_say_what_its_records_say() -> None:
    assert not stale_pages(Description.open(ROOT / "results" / "tables.toml"))


def test_sentences_quote_numbers_that_a_table_or_the_paper_has() -> None:
    tables = re.compile(r"<!-- table: .*?<!-- end of table -->", re.DOTALL)
    differences = re.compile(r"[+−]?\d+\.\d \[[+−]?\d+\.\d, [+−]?\d+\.\d\]")
    pages = [ROOT / page for page in Description.open(ROOT / "results" / "tables.toml").pages]
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    shown = " ".join(table for text in texts.values() for table in tables.findall(text))
    prose = {name: " ".join(tables.sub("", text).split()) for name, text in texts.items()}
    quoted = [found for text in prose.values() for found in differences.findall(text)]
    assert len(quoted) > 10 and [found for found in quoted if found not in shown] == []
    paper = {f"{reported.mean:.1f}" for reported in figures().values()}
    page = texts["results.md"]
    for section in re.split(r"\n## ", page):
        own = tables.findall(section) if "the paper's length\n" in section[:40] else ()
        of = " ".join(own or tables.findall(page))  # other sections quote each other
        known = {*paper, *re.findall(r"\d+\.\d(?!\d)", of)}
        numbers = re.findall(r"(?<![\w.])\d+\.\d(?![\w.])", tables.sub("", section))
        assert [number for number in numbers if number not in known] == [], section[:40]


def test_the_results_of_a_method_are_tables_of_records_and_sentences_quote_them() -> None:
    tables = re.compile(r"<!-- table: .*?<!-- end of table -->", re.DOTALL)
    pages = [p for p in Description.open(ROOT / "results" / "tables.toml").pages if "methods/" in p]
    for page in pages:
        section = (ROOT / page).read_text(encoding="utf-8").partition("\n## Results\n")[2]
        shown = " ".join(tables.findall(section))
        prose = re.sub(r"`[^`]*`", "", tables.sub("", section))
        assert shown and "\n|" not in prose, page
        assert set(re.findall(r"\d+\.\d+", prose)) <= set(re.findall(r"\d+\.\d+", shown)), page


def test_the_example_of_a_table_is_what_its_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^earl (table results/.*)$", page, re.MULTILINE)
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(app, shlex.split(command)).stdout
    assert printed.count("\n| ") == 3 and printed.split("\n\nPercent")[0] in page


def test_no_record_of_this_repository_is_damaged_or_names_a_place() -> None:
    runs = find_runs([ROOT / "results"])
    assert all(run.finished and run.sealed for run in runs)
    assert all(not run.record["places"] and "/" not in run.data["source"] for run in runs)


def test_digits_and_the_demo_have_the_rates_that_held_out_digits_chose() -> None:
    description = Description.open(ROOT / "results" / "tables.toml")
    sheet = description.sheets["digits-rates-held-out"]
    runs = find_runs([ROOT / "results" / folder for folder in sheet.runs])
    chosen = {}
    for row in sheet.rows:
        best = best_column(sheet, runs, row)
        assert best is not None and 0 < best < len(sheet.columns) - 1  # not at the grid's edge
        chosen[row.label.strip("`")] = float(sheet.columns[best].label)
    assert {method: chosen[method] for method in RATES} == RATES
    plan = SweepFile.open(find("digits")).experiments
    assert {e.method: e.values()["lr"] for e in plan} == chosen
