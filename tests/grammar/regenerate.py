"""Regenerate the golden errors by ``python -m tests.grammar.regenerate``; review the diff."""

from tests.grammar.golden import FOLDER, golden, text_of

if __name__ == "__main__":
    for case in sorted(FOLDER.glob("*.txt")):
        case.write_text(golden(text_of(case)), encoding="utf-8")
