"""The committed parser equals the parser that ANTLR generates from the grammar."""

import shutil
from pathlib import Path

import pytest

from grammar import generate

pytestmark = pytest.mark.usefixtures("processes")


def test_generated_parser_is_up_to_date() -> None:
    assert generate.stale() == []


def test_a_changed_parser_is_noticed(tmp_path: Path) -> None:
    lexer, parser = generate.MODULES
    shutil.copy(generate.GENERATED / parser, tmp_path)
    assert generate.stale(tmp_path) == [lexer]
