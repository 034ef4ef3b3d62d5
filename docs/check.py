"""Check the documents: every link leads somewhere, every insight in them can be parsed."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from grammar import ParseError, parse, render

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"^```.*?^```|`[^`]+`", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"^```mistbow\n(.*?)^```", re.DOTALL | re.MULTILINE)


def problems() -> Iterator[str]:
    """Yield what is wrong, one line each."""
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        text = page.read_text()
        for target in LINK.findall(CODE.sub("", text)):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: {target} is not there"
        for example in EXAMPLE.findall(text):
            yield from _syntax(page, example)
    for page in sorted(ROOT.glob("examples/*.insights")):
        yield from _syntax(page, page.read_text())


def _syntax(page: Path, text: str) -> Iterator[str]:
    try:
        parse(text)
    except ParseError as error:
        for problem in error.problems:
            yield f"{page.relative_to(ROOT)}: {render(problem, text)}"


found = list(problems())
print("\n".join(found) or "The documents are in order.")
sys.exit(1 if found else 0)
