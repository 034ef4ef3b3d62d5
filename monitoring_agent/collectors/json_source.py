"""A collector of points in JSON from programs, files and URLs."""

import json
from typing import Any

import msgspec

from mistbow.client import Point
from mistbow.http.field_conversion import convert_items
from mistbow.telemetry import get_logger
from monitoring_agent import metrics
from monitoring_agent.collectors.source_reader import SourceError, read_source, source_name

log = get_logger(__name__)


class JsonCollector:
    """Reads points in the format of ``/put`` from ``http://…``, ``exec:COMMAND`` or a file.

    The source may return ``{"monitoring": [...]}`` or the list alone. A point without a timestamp
    gets the time of the collection. Invalid points are counted, logged and dropped. ``name``: must
    not contain credentials; None stands for ``source_name(source)``.
    """

    def __init__(self, source: str, name: str | None = None) -> None:
        self.name = source_name(source) if name is None else name
        self._source = source
        self._logged_problems: set[str] = set()

    def collect(self, now_ms: int) -> list[Point]:
        """Read the source, and return its valid points.

        Raises ``SourceError`` if the source is unavailable, or returns only invalid points.
        """
        content = read_source(self._source, self.name)
        try:
            items = _items(json.loads(content))
        except (ValueError, KeyError, RecursionError) as error:
            raise self._error(str(error)) from error
        points: list[Point] = []
        problems: list[str] = []
        for item in items:
            try:
                points.append(_point(item, now_ms))
            except (ValueError, OverflowError, msgspec.ValidationError) as error:
                problems.append(str(error))
        if problems:
            metrics.INVALID_POINTS.labels(self.name).inc(len(problems))
            if not points:
                raise self._error(problems[0])
            self._log(problems)
        return points

    def _error(self, problem: str) -> SourceError:
        return SourceError(f"{self.name} does not return a list of points: {problem}")

    def _log(self, problems: list[str]) -> None:
        """Log invalid points, unless the problem of the first one was logged before."""
        if problems[0] in self._logged_problems:
            return
        self._logged_problems.add(problems[0])
        log.warning(
            "source_points_invalid", collector=self.name, points=len(problems), problem=problems[0]
        )


def _items(body: Any) -> list[Any]:
    items = body["monitoring"] if isinstance(body, dict) else body
    if not isinstance(items, list):
        raise ValueError("it is not a list")
    return items


def _point(item: Any, now_ms: int) -> Point:
    if not isinstance(item, dict):
        raise ValueError("a point is not an object")
    [fields] = convert_items({"monitoring": [{"timestamp": now_ms, **item}]})["monitoring"]
    return msgspec.convert(fields, Point)
