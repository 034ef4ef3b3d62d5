"""A page of results with one table, in which a run replaces the rows of earlier equal runs."""

from collections.abc import Iterable
from pathlib import Path

_RULE = "| --- |"


def replace_rows(page: Path, head: str, rows: Iterable[tuple[str, ...]], keys: int) -> None:
    """Write a page with its present rows and new ones, in their order.

    ``head``: the page up to the rule below the names of the columns. Rows whose first ``keys``
    cells are equal are of the same run; the later one remains.
    """
    found = {row[:keys]: row for row in (*_rows(page), *rows)}
    lines = (f"| {' | '.join(row)} |\n" for row in sorted(found.values()))
    page.write_text(head + "".join(lines))


def _rows(page: Path) -> list[tuple[str, ...]]:
    if not page.exists():
        return []
    _, _, rows = page.read_text().partition(_RULE)
    return [
        tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows.splitlines()[1:]
    ]
