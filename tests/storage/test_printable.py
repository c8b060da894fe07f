"""Names from files do nothing to a terminal, a table or a page: they are spelled out."""

import io
import json
import os
import re
import shutil
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from datasets_trees import save
from earl.experiments.runs.records import find_runs
from earl.report.page.page import make_page
from earl.report.tables import make_table
from earl.report.tables.formats import FORMATS
from earl.report.tables.terminal import show_table
from earl.storage.printable import printable
from run_folders import write_run, write_summary

EVIL = "a\x1b[31mred\x9b2J\nearl: all is well\r\u202e"
SPELLED = r"a\x1b[31mred\x9b2J\nearl: all is well\r\u202e"
pytestmark = pytest.mark.usefixtures("places")


def acts(text):
    """Return the characters of a text that act on a terminal, but for the ends of lines."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} - {"\n"}


def test_every_unfit_character_is_spelled_out():
    assert printable(EVIL) == SPELLED


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_what_is_printable_has_nothing_that_acts_and_can_be_encoded(text):
    shown = printable(text)
    assert not acts(shown) and "\n" not in shown and printable(shown) == shown
    shown.encode("utf-8")
    if (
        not acts(text)
        and "\n" not in text
        and not re.search("[\u061c\u200e-\u202e\u2066-\u2069]", text)
    ):
        assert shown == text


def test_class_folders_reach_the_terminal_spelled_out(tmp_path, typed):
    for c in (EVIL, "b", os.fsdecode(b"no\xffunicode")):
        for n in range(3):
            save(tmp_path / "photos" / c / f"{n}.png", seed=n)
    code, out, err = typed("data", "prepare", f"folder:{tmp_path / 'photos'}")
    assert code == 0 and SPELLED in out and r"no\udcffunicode" in out
    assert not acts(out + err)
    assert not any(line.startswith("earl: all is well") for line in out.splitlines())


def test_an_error_that_names_such_a_file_is_one_line(tmp_path, typed):
    for c in (EVIL, "b"):
        save(tmp_path / "photos" / c / "0.png")
        save(tmp_path / "photos" / c / "1.png")
    (tmp_path / "photos" / EVIL / "0.png").write_bytes(b"no image")
    code, _, err = typed("data", "prepare", f"folder:{tmp_path / 'photos'}")
    assert code == 1 and err.count("\n") == 1 and SPELLED in err
    assert not acts(err)


@pytest.fixture
def runs(tmp_path):
    """Two runs in folders of odd names, one not finished, with odd notes and names of classes."""
    write_run(tmp_path / EVIL, "er", 1, [0.5], data={"class_names": [EVIL, "b"], EVIL: EVIL})
    path = write_run(tmp_path / EVIL, "er", 2, [0.5], finished=False)
    assert path.exists()
    for summary in (tmp_path / EVIL).rglob("summary.json"):
        facts = json.loads(summary.read_text())
        write_summary(summary.parent, facts | {"notes": [EVIL]})
    return find_runs([tmp_path])


def test_tables_hold_nothing_that_acts(runs):
    table = make_table(runs)
    assert any(SPELLED in note for note in table.notes)
    for name, write in FORMATS.items():
        assert not acts(write(table)), name
        assert "\nearl: all is well" not in write(table)
    console = Console(width=300, force_terminal=False, file=io.StringIO())
    show_table(table, console)
    assert not acts(console.file.getvalue()) and SPELLED in console.file.getvalue()


def test_a_page_holds_nothing_that_acts(runs, monkeypatch):
    monkeypatch.setattr("earl.report.page.page.plotly_script", bytes)
    page = make_page(runs).decode()
    assert not acts(page) and SPELLED in page


def test_a_class_of_such_a_name_is_exported_spelled_out(runs):
    assert runs[0].class_names == (SPELLED, "b")


def test_a_title_of_a_sweep_is_spelled_out(tmp_path, typed, few_runs):
    (tmp_path / "s.toml").write_text(
        'title = "a\\u001b[2J"\n[[grid]]\nmethod = "er"\ndataset = "shapes"\n'
        'stream = "disjoint"\n[grid.settings]\nper_class = 10\nevery = 10\n'
    )
    shutil.copytree(few_runs, tmp_path / "runs")  # there that run has ended
    code, _, err = typed("sweep", tmp_path / "s.toml", "-o", tmp_path / "runs")
    assert code == 0 and r"a\x1b[2J: 1 of 1 runs finished" in err
    assert not acts(err)
