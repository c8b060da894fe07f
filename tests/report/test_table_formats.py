"""How a table is written: Markdown, CSV, JSON, LaTeX, a terminal, and the command."""

import csv
import io
import json
import re
import shutil
import subprocess
from itertools import pairwise

import pytest
from rich.console import Console

from earl.report.tables.formats import FORMATS, markdown
from earl.report.tables.latex import tex
from earl.report.tables.layout import number, signed
from earl.report.tables.terminal import show_table
from run_folders import EARL, ER, write_run, write_runs
from tables_of_runs import body, cell, table_of


def test_csv_and_json_hold_every_number_in_full(folder):
    write_run(folder, "er", 4, [1 / 3, 0.777])
    table = table_of(folder, versus="er")
    records = json.loads(FORMATS["json"](table))["cells"]
    lines = list(csv.DictReader(FORMATS["csv"](table).splitlines()))
    assert len(records) == len(lines) == 4
    for record, line in zip(records, lines, strict=True):
        found = cell(table, record["row"], record["metric"])
        assert record["values"] == {str(s): v for s, v in found.values.items()}
        assert record["mean"] == float(line["mean"]) == found.spread.mean
        assert record["std"] == float(line["std"]) == found.spread.std
        if found.difference is None:
            assert record["difference"] is None and line["difference"] == ""
        else:
            assert record["low"] == float(line["low"]) == found.difference.low
        values = dict(part.split(":") for part in line["values"].split())
        assert {int(s): float(v) for s, v in values.items()} == found.values


def test_latex_has_balanced_columns_and_nothing_unescaped(cifar):
    write_runs(cifar, "er", ER, dataset="cifar10", stream="disjoint")
    write_runs(cifar, "earl", EARL, dataset="cifar10", settings={"per_class": 9})
    text = FORMATS["latex"](table_of(cifar, versus="er", paper="main", costs=True))
    parts = text.split(r"\begin{tabular}")[1:]
    assert len(parts) > 1
    for part in parts:
        columns = re.match(r"\{(lr*)\}", part)[1]
        rows = [line for line in part.splitlines() if line.endswith(r"\\")]
        for row in rows:
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            cells = len(re.findall(r"(?<!\\)&", row)) + 1
            assert cells - len(spans) + sum(spans) == len(columns)
        rules = re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", part)
        reach = [tuple(map(int, pair)) for pair in rules]
        assert reach[0][0] == 2 and reach[-1][1] == len(columns)
        assert all(a[1] + 1 == b[0] for a, b in pairwise(reach))
    comment, _, rest = text.partition("\n")
    assert comment.startswith("% Needs \\usepackage{booktabs}")
    rest = rest.replace("{!}{%\n", "{!}{\n")  # ends a line without a space
    assert rest.count("{") == rest.count("}") and rest.count("$") % 2 == 0
    assert not re.search(r"(?<!\\)[_%#]", rest)
    assert text.isascii()


def bold(text):
    return re.findall(r"^(.*?) &.*\\textbf\{([-$\d.]+)", text, re.M)


def test_latex_names_itself_and_what_it_needs(folder):
    text = FORMATS["latex"](table_of(folder, "A_AUC"))
    assert text.startswith("% Needs \\usepackage{booktabs} in the preamble.\n\\begin{table}\n")
    assert text.count(r"\label{tab:shapes-disjoint-a-auc}") == 1
    assert text.index(r"\caption") < text.index(r"\label")  # else it would be that of the section
    assert "resizebox" not in text and text.count(r"\begin{tabular}") == 1


def test_latex_has_the_best_mean_in_bold_be_it_the_highest_or_the_lowest(tmp_path):
    for method, accuracy, nc1 in (("er", 0.5, 0.25), ("earl", 0.75, 0.5), ("scr", 0.75, 0.125)):
        write_run(tmp_path, method, 1, [accuracy], extra={"NC1": nc1, "mine": accuracy})
    write_run(tmp_path, "ewc", 1, [0.25])
    text = FORMATS["latex"](table_of(tmp_path, "A_AUC"))
    assert bold(text) == [("earl", "75.00"), ("scr", "75.00")]  # they look the same
    assert "Bold: the best mean" in text
    assert bold(FORMATS["latex"](table_of(tmp_path, "NC1"))) == [("scr", "0.125")]
    assert bold(FORMATS["latex"](table_of(tmp_path, "mine"))) == []  # better, or worse?
    alone = FORMATS["latex"](table_of(tmp_path, "A_AUC", where=["method=er"]))
    assert "textbf" not in alone and "Bold" not in alone  # nothing to choose from


def test_a_wide_table_in_latex_is_broken_or_scaled(folder):
    """Two streams with comparisons do not fit beside each other; a long name fits nowhere."""
    write_runs(folder, "earl", EARL, stream="gaussian")
    write_runs(folder, "er", ER, stream="gaussian")
    text = FORMATS["latex"](table_of(folder, versus="er"))
    parts = text.split(r"\begin{tabular}")[1:]
    assert len(parts) == 2 and "disjoint" in parts[0] and "gaussian" in parts[1]
    assert text.count("70.00 $\\pm$ 5.00 (3)") == 2 and text.count(r"\label") == 1
    many = {name: 0.123 for name in ("lam", "tau")} | {"k": 123, "pairs_per_class": 7}
    many |= {"hidden": 77, "negative": "permutation", "policy": "class_reservoir"}
    write_runs(folder / "long", "earl", EARL, settings=many)
    text = FORMATS["latex"](table_of(folder / "long"))
    assert text.count(r"\resizebox{") == text.count(r"\end{tabular}}") >= 1
    assert r"\usepackage{graphicx}" in text.splitlines()[0]


def test_latex_escapes_what_it_would_not_print():
    assert tex("a_b & 50 % #1 {x} ~ ^ $ \\") == (
        r"a\_b \& 50 \% \#1 \{x\} \textasciitilde{} \textasciicircum{} \$ \textbackslash{}"
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex")
def test_latex_compiles(cifar, tmp_path):
    long = {"negative": "permutation", "policy": "class_reservoir", "tau": 0.123, "k": 12345}
    write_runs(cifar, "earl", EARL, dataset="cifar10", stream="gaussian", settings=long)
    text = FORMATS["latex"](table_of(cifar, versus="er", paper="main", costs=True))
    begin = r"\documentclass{article}\usepackage{booktabs}\usepackage{graphicx}\begin{document}"
    document = begin + text + r"\end{document}"
    (tmp_path / "t.tex").write_text(document)
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", FORMATS)
def test_equal_runs_give_equal_bytes_wherever_they_are(name, tmp_path):
    texts = []
    for place, order in (("a/here", (1, 2, 3)), ("b", (3, 1, 2))):
        for seed in order:
            write_run(tmp_path / place, "er", seed, ER[seed])
            write_run(tmp_path / place, "earl", seed, EARL[seed])
        write_run(tmp_path / place, "er", 4, [0.5], finished=False)
        texts.append(FORMATS[name](table_of(tmp_path / place, versus="er")))
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_shows_every_number_within_its_width(width, cifar):
    write_runs(cifar, "er", ER, dataset="cifar10", stream="disjoint")
    write_runs(cifar, "earl", EARL, dataset="cifar10", stream="disjoint")
    table = table_of(cifar, versus="er", paper="main")
    console = Console(width=width, file=io.StringIO(), highlight=False)
    show_table(table, console)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    for row in body(markdown(table))[2:]:
        assert all(text in shown for text in row)
    assert "…" not in shown


def test_no_sign_stands_before_nothing():
    assert signed(-0.001) == signed(0.0) == signed(0.004) == "0.00"
    assert (signed(-1.5), signed(2)) == ("−1.50", "+2.00")
    assert (number(-0.001), number(-1.5)) == ("0.00", "−1.50")


def test_the_command_prints_markdown_unless_asked(folder, earl):
    code, out, said = earl("table", folder, "--versus", "er")
    assert (code, said) == (0, "") and out == markdown(table_of(folder, versus="er"))
    _, out, _ = earl("table", folder, "--format", "terminal")
    assert "60.00 ± 10.00 (3)" in out and "|" not in out
    _, short, _ = earl("table", folder, "--json")
    _, long, _ = earl("table", folder, "--format", "json")
    assert short == long and json.loads(short)["cells"]


def test_notes_do_not_spoil_a_csv_file(folder, earl):
    write_run(folder, "er", 4, [0.5], finished=False)
    code, out, said = earl("table", folder, "--format", "csv")
    assert code == 0 and len(list(csv.DictReader(out.splitlines()))) == 4
    assert said == "note: left out, not finished (40 of 80 samples): shapes/disjoint/er/seed-4\n"


def test_a_refused_table_is_one_line(folder, earl):
    write_run(folder, "er", 4, [0.5], env={"earl": "9.9"})
    code, out, said = earl("table", folder)
    assert code == 1 and out == "" and said.startswith("earl: ") and said.count("\n") == 1
    code, _, said = earl("table", folder, "--metric", "A_lst")
    assert code == 1 and "did you mean 'A_last'?" in said
    code, _, said = earl("table", folder, "--format", "word")
    assert code == 2
