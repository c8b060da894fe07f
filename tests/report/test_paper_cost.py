"""The table of what the paper's tables take is made of what `earl reproduce --cost` has said."""

import json
from pathlib import Path

from earl.report.results.description import Sheet
from earl.report.results.paper_cost import paper_cost

SHEET = Sheet(name="cost", kind="paper-cost", runs=("cost.json",), command="earl reproduce --cost")


def test_hours_follow_from_flops(tmp_path: Path) -> None:
    cost = {"runs": 60, "training": 6e17, "exams": 1.2e17, "memory": 4e8, "disk": 7e8}
    (tmp_path / "cost.json").write_text(json.dumps({"ablation": cost}), encoding="utf-8")
    text = paper_cost(SHEET, tmp_path / "cost.json")
    # by hand: 7.2e17 FLOPs ÷ 1e13 a second ÷ 3600
    line = "| 60 | 600 PFLOP | 120 PFLOP | 20 | 400 MB | 700 MB |"
    assert f"| `ablation` | `earl reproduce ablation` {line}" in text
    assert "10 TFLOP/s" in text and "`earl reproduce --cost`" in text


def test_without_a_file_the_command_is_named(tmp_path: Path) -> None:
    assert "No records yet: `earl reproduce --cost`" in paper_cost(SHEET, tmp_path / "none.json")
