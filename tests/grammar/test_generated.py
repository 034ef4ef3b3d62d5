"""The committed parser is the one that ANTLR makes of the grammar."""

import shutil
from pathlib import Path

from grammar import generate


def test_generated_parser_is_up_to_date() -> None:
    assert generate.stale() == []


def test_a_changed_parser_is_noticed(tmp_path: Path) -> None:
    lexer, parser = generate.MODULES
    shutil.copy(generate.GENERATED / parser, tmp_path)
    assert generate.stale(tmp_path) == [lexer]
