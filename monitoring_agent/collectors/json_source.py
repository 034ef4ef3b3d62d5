"""A collector of points in JSON from programs, files and URLs."""

import json

import msgspec

from mistbow.client import Point
from monitoring_agent.collectors.source_reader import SourceError, read_source


class JsonCollector:
    """Reads points in the format of ``/put`` from ``http://…``, ``exec:COMMAND`` or a file.

    The source may return ``{"monitoring": [...]}`` or the list alone. A point without a timestamp
    gets the time of the collection.
    """

    def __init__(self, source: str) -> None:
        self.name = source

    def collect(self, now_ms: int) -> list[Point]:
        """Read the source, and return its points; raises ``SourceError``."""
        try:
            body = json.loads(read_source(self.name))
            points = body["monitoring"] if isinstance(body, dict) else body
            dated = [{"timestamp": now_ms, **point} for point in points]
            return msgspec.convert(dated, list[Point])
        except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError) as error:
            raise SourceError(f"{self.name} does not return a list of points: {error}") from error
