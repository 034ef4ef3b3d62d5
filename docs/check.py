"""Check the documents: links and their sections, the syntax of insights in examples, names of code,
and marks of unfinished text.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grammar import ParseError, parse, render

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
SECTION = re.compile(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`]+`", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"^```mistbow\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py):([A-Za-z_.]+)`")
"""A pattern for the name of a function or class, such as
`storage_agent/streams/writer.py:Writer.append`.
"""


def problems() -> Iterator[str]:
    """Yield a line of text for each problem in the documents."""
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        text = page.read_text()
        for target in LINK.findall(CODE.sub("", text)):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: {target} does not exist"
        yield from _unknown_sections(page, text)
        for example in EXAMPLE.findall(text):
            yield from _syntax(page, example)
        for file, name in NAME.findall(text):
            if not _is_defined(ROOT / file, name.split(".")):
                yield f"{page.relative_to(ROOT)}: {file} defines no {name}"
        for number, line in enumerate(text.splitlines(), start=1):
            if "TODO" in line:
                yield f"{page.relative_to(ROOT)}:{number}: replace TODO by the text"
    for page in sorted(ROOT.glob("examples/*.insights")):
        yield from _syntax(page, page.read_text())


def _unknown_sections(page: Path, text: str) -> Iterator[str]:
    for target, section in SECTION.findall(CODE.sub("", text)):
        file = page.parent / target if target else page
        if file.suffix == ".md" and file.is_file() and section not in _sections(file):
            yield f"{page.relative_to(ROOT)}: {file.name} has no section #{section}"


@cache
def _sections(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as Git hosts name them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _syntax(page: Path, text: str) -> Iterator[str]:
    try:
        parse(text)
    except ParseError as error:
        for problem in error.problems:
            yield f"{page.relative_to(ROOT)}: {render(problem, text)}"


def _is_defined(file: Path, names: list[str]) -> bool:
    if not file.is_file():
        return False
    body: list[ast.stmt] = ast.parse(file.read_text()).body
    for name in names:
        found = [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == name
        ]
        if not found:
            return False
        body = found[0].body
    return True


found = list(problems())
print("\n".join(found) or "The documents are in order.")
sys.exit(1 if found else 0)
