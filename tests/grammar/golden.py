"""Golden errors: ``tests/errors/*.txt`` contain a text, ``---``, and its rendered diagnostics."""

from pathlib import Path

from grammar import ParseError, parse, render

FOLDER = Path(__file__).parents[1] / "errors"
SEPARATOR = "\n---\n"


def text_of(case: Path) -> str:
    """Return the text of a golden file."""
    return case.read_text(encoding="utf-8").split(SEPARATOR)[0]


def golden(text: str) -> str:
    """Return the content of the golden file of a text."""
    try:
        parse(text)
    except ParseError as error:
        shown = "\n\n".join(render(problem, text) for problem in error.problems)
    else:
        shown = "no problem"
    return f"{text}{SEPARATOR}{shown}\n"
