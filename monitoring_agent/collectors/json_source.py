"""A collector of points in JSON from programs, files and URLs."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import httpx
import msgspec

from mistbow.client import Point
from mistbow.errors import MistbowError

_TIMEOUT_S = 10.0
_COMMAND = "exec:"


class SourceError(MistbowError):
    """The error that a JSON source is unavailable, or does not return a list of points."""

    code = "source"


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
            body = json.loads(_read(self.name))
            points = body["monitoring"] if isinstance(body, dict) else body
            dated = [{"timestamp": now_ms, **point} for point in points]
            return msgspec.convert(dated, list[Point])
        except (OSError, httpx.HTTPError, subprocess.SubprocessError) as error:
            raise SourceError(f"cannot read {self.name}: {error}") from error
        except (ValueError, TypeError, KeyError, msgspec.ValidationError) as error:
            raise SourceError(f"{self.name} does not return a list of points: {error}") from error


def _read(source: str) -> Any:
    if source.startswith(("http://", "https://")):
        return httpx.get(source, timeout=_TIMEOUT_S).raise_for_status().content
    if source.startswith(_COMMAND):
        argv = shlex.split(source.removeprefix(_COMMAND))
        done = subprocess.run(argv, capture_output=True, check=True, timeout=_TIMEOUT_S)
        return done.stdout
    return Path(source).read_bytes()
