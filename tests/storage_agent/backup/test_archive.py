"""The place of a backup, in a folder or a file system of pyarrow."""

import pytest

from mistbow.errors import InvalidRequestError
from storage_agent.backup.archive import Archive


@pytest.mark.parametrize("location", ["", " "])
def test_empty_place_is_refused(location: str) -> None:
    """A shell's unset variable wrote the backup to the working folder."""
    with pytest.raises(InvalidRequestError, match="the place of the backup is empty"):
        Archive(location)


def test_error_names_no_credentials_of_a_place() -> None:
    with pytest.raises(InvalidRequestError, match="neither a folder nor the URI") as caught:
        Archive("nothing://key:secret@bucket/path")
    assert "secret" not in str(caught.value)
    assert "://…@bucket/path" in str(caught.value)
