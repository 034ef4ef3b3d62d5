"""The pages of settings, metrics and commands, whose tables are generated from the code."""

import pytest

from docs.reference import DOCS, pages


@pytest.mark.parametrize("name", ["settings.md", "metrics.md", "commands.md"])
def test_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == pages()[name], f"run make reference to write docs/{name}"
