"""The display of results on a terminal: a live table, or one line for each result."""

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from analytics.insight_models import Result
from mistbow.clock import Clock

_MAX_ROWS = 25
_MAX_SILENT = 5
_STALE_MS = 20_000


class ResultsTable:
    """A live table with the newest result of each insight and key; safe for threads."""

    def __init__(self, urls: Mapping[str, str], clock: Clock) -> None:
        self._urls = urls
        self._clock = clock
        self._newest: dict[tuple[str, str], Result] = {}
        self._silent: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def set_silent(self, silent: Iterable[str]) -> None:
        """Show texts about the insights without values, instead of the former texts."""
        self._silent = tuple(silent)

    def update(self, result: Result) -> None:
        """Show a result, unless a newer result of the same insight and key is shown.

        A correction, which has the time of the shown result, replaces the shown result.
        """
        row_key = (result.insight, result.key_words)
        with self._lock:
            old = self._newest.get(row_key)
            if old is None or result.ts >= old.ts:
                self._newest[row_key] = result

    def __rich__(self) -> RenderableType:
        current = self._current()
        table = Table("insight", "key", title="Insights", title_justify="left")
        for title in ("value", "event time", "age"):
            table.add_column(title, justify="right")
        now = self._clock()
        for result in current[:_MAX_ROWS]:
            age = f"{max(0, now - result.ts) / 1000:.1f} s"
            table.add_row(
                result.insight, _key(result), result.value_words(",.3f"), _event_time(result), age
            )
        notes = [f"{name:>8}  {url}/docs" for name, url in self._urls.items()]
        if "enabler" in self._urls:
            notes.insert(0, f"{'console':>8}  {self._urls['enabler']}/")
        if len(current) > _MAX_ROWS:
            notes.insert(0, f"and {len(current) - _MAX_ROWS} more")
        return Group(
            table,
            *(Text(text, style="yellow") for text in self._silent[:_MAX_SILENT]),
            *(Text(note, style="dim") for note in notes),
            "Ctrl-C stops all services.",
        )

    def _current(self) -> list[Result]:
        """Return the results to show, in the order of insights and keys.

        A result is omitted if its insight has a result that is newer by ``_STALE_MS`` or more.
        """
        with self._lock:
            results = [self._newest[row_key] for row_key in sorted(self._newest)]
        newest: dict[str, int] = {}
        for result in results:
            newest[result.insight] = max(result.ts, newest.get(result.insight, 0))
        return [each for each in results if each.ts > newest[each.insight] - _STALE_MS]


def result_line(result: Result) -> str:
    """Return a result as one line of text."""
    notes = f"({result.notes})" if result.notes else ""
    words = (
        _event_time(result),
        result.insight,
        result.key_words,
        result.value_words(",.3f"),
        notes,
    )
    return " ".join(word for word in words if word)


def _key(result: Result) -> str:
    return " ".join(word for word in (result.key_words, result.notes) if word)


def _event_time(result: Result) -> str:
    return datetime.fromtimestamp(result.ts / 1000, UTC).astimezone().strftime("%H:%M:%S")
