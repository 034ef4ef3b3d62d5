"""The record of the images that were built in this folder: ``make down IMAGES=1`` removes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import ImageNotFound  # type: ignore[import-untyped]

from mistbow.files import write_file


@dataclass(frozen=True, slots=True)
class BuiltImages:
    """A file (JSON) with the ids of built images: name -> id."""

    file: Path

    def add(self, name: str, image_id: str) -> None:
        """Record an image that was built; an earlier one of this name is forgotten."""
        self._write({**self._read(), name: image_id})

    def names(self) -> list[str]:
        """Return the names of the recorded images."""
        return sorted(self._read())

    def remove(self, engine: Any) -> Iterator[str]:
        """Remove the recorded images; yield the name of each.

        A name that belongs to another image by now is left alone. Names without a tag mean
        ``latest``, as in Docker.
        """
        for name, image_id in self._read().items():
            try:
                if engine.images.get(name).id == image_id:
                    engine.images.remove(name)
                    yield name
            except ImageNotFound:
                pass
        self.file.unlink(missing_ok=True)

    def _read(self) -> dict[str, str]:
        if not self.file.exists():
            return {}
        return msgspec.json.decode(self.file.read_bytes(), type=dict[str, str])

    def _write(self, ids: dict[str, str]) -> None:
        write_file(self.file, msgspec.json.encode(ids), 0o644)
