"""The table of what the paper's tables take is made of what `earl reproduce --cost` has said."""

from earl.report.results.description import Sheet
from earl.report.results.paper_cost import paper_cost

SHEET = Sheet(name="cost", kind="paper-cost", runs=("cost.json",), command="earl reproduce --cost")


def test_hours_follow_from_flops() -> None:
    cost = {"runs": 60, "training": 6e17, "exams": 1.2e17, "memory": 4e8, "disk": 7e8}
    text = paper_cost(SHEET, {"ablation": cost})
    # by hand: 7.2e17 FLOPs ÷ 1e13 a second ÷ 3600
    line = "| 60 | 600 PFLOP | 120 PFLOP | 20 | 400 MB | 700 MB |"
    assert f"| `ablation` | `earl reproduce ablation` {line}" in text
    assert "10 TFLOP/s" in text and "`earl reproduce --cost`" in text
