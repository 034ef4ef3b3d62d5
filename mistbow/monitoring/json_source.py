"""Any program, file or URL that yields points as JSON, as a source of measurements."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import httpx
import msgspec

from mistbow.client.agent_model import Point
from mistbow.errors import MistbowError

_PATIENCE_S = 10.0
_COMMAND = "exec:"


class SourceError(MistbowError):
    """A JSON source is away, or yields what is not a list of points."""

    code = "source"


class JsonCollector:
    """Reads points in the form of ``/put`` from ``http://…``, ``exec:COMMAND`` or a file.

    Both ``{"monitoring": [...]}`` and the bare list will do; a point without a timestamp is of now.
    """

    def __init__(self, source: str) -> None:
        self.name = source

    def collect(self, now_ms: int) -> list[Point]:
        """Return the points; raises ``SourceError``."""
        try:
            body = json.loads(_read(self.name))
            points = body["monitoring"] if isinstance(body, dict) else body
            dated = [{"timestamp": now_ms, **point} for point in points]
            return msgspec.convert(dated, list[Point])
        except (OSError, httpx.HTTPError, subprocess.SubprocessError) as error:
            raise SourceError(f"cannot read {self.name}: {error}") from error
        except (ValueError, TypeError, KeyError, msgspec.ValidationError) as error:
            raise SourceError(f"{self.name} yields no list of points: {error}") from error


def _read(source: str) -> Any:
    if source.startswith(("http://", "https://")):
        return httpx.get(source, timeout=_PATIENCE_S).raise_for_status().content
    if source.startswith(_COMMAND):
        argv = shlex.split(source.removeprefix(_COMMAND))
        done = subprocess.run(argv, capture_output=True, check=True, timeout=_PATIENCE_S)
        return done.stdout
    return Path(source).read_bytes()
