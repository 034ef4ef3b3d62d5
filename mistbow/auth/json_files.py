"""The JSON files of the trust between services, which may contain keys and tokens."""

import re
from pathlib import Path
from typing import TypeVar

import msgspec

from mistbow.errors import InvalidRequestError
from mistbow.files import write_file

T = TypeVar("T")


def read_json_file(path: Path, decoder: msgspec.json.Decoder[T], what: str, hint: str) -> T:
    """Return the content of a file.

    ``what``: the kind of the file, for errors. ``hint``: how a missing file is created. Raises
    ``InvalidRequestError`` with a message of one line if the file is missing or invalid.
    """
    try:
        return decoder.decode(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(
            f"the {what} {path} cannot be read: {error.strerror}", hint=hint
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # Without the value itself: it may be a key, or a token that was entered by mistake.
        found = re.sub(r" value '.*'", " value", str(error))
        raise InvalidRequestError(f"the {what} {path} is invalid: {found}") from None


def write_json_file(path: Path, content: object, mode: int = 0o600) -> None:
    """Write a file atomically; ``mode``: the permissions of the file, also if it exists already."""
    write_file(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n", mode)
