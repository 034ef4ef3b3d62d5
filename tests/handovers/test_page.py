"""The page of handovers: the pauses by kind, in the place of those of an earlier run."""

from pathlib import Path

from tests.handovers.page import Handover, add_handovers


def test_page_lists_pauses_by_kind_and_replaces_the_earlier_run(tmp_path: Path) -> None:
    page = tmp_path / "handovers.md"
    moves = [Handover("move", pause, None, 7.0) for pause in (0.5, 0.25, 1.5)]
    amended = Handover("amend", 0.25, 3.0, 6.0)
    add_handovers(page, "two sites", 1, [Handover("move", 9.0, None, 9.0)], 10)
    add_handovers(page, "one site", 2, moves, 10)
    add_handovers(page, "one site", 7, [*moves, amended], 2000)
    rows = [row.split(" | ") for row in page.read_text().splitlines() if row.startswith("| o")]
    kinds = {kind: rest for _, kind, _, *rest in rows}
    assert kinds["amend"][:-2] == ["7", "1", "0.25", "0.25", "3.00", "3.00", "6.0"]
    assert kinds["move"][:-2] == ["7", "3", "0.50", "1.50", "", "", "7.0"]
    assert kinds["all"][:-2] == ["7", "4", "0.25", "1.50", "3.00", "3.00", "7.0"]
    assert kinds["all"][-1] == "2,000 |"
    assert (amended.longest, moves[0].longest) == (3.0, 0.5)
    assert "| two sites | move |" in page.read_text()
