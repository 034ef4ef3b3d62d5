"""The sources of the console: texts from data are never markup, and names are declared once."""

import re
from pathlib import Path

import pytest

from console.pages import static_folder

MODULES = sorted(
    each
    for each in static_folder().rglob("*.js")
    if "vendor" not in each.relative_to(static_folder()).parts
)
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "dangerouslySetInnerHTML",
    "createContextualFragment", "setHTMLUnsafe", "DOMParser", "srcdoc", "eval(", "new Function",
    "javascript:", "http://", "https://",
)  # fmt: skip
SAFE_LINKS = ("grafanaLink", "link(", "insightLink(", "linkOf(", "file(", "row.link", "`${link(")
"""The functions whose values are addresses within the console or the API."""


def named(module: Path) -> str:
    return str(module.relative_to(static_folder()))


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_module_makes_no_markup_of_texts_and_names_no_other_server(module: Path) -> None:
    text = module.read_text()
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_links_of_data_lead_to_pages_of_the_console(module: Path) -> None:
    targets = re.findall(r"(?:href|src|action)=\$\{([^\n]{0,12})", module.read_text())
    assert [each for each in targets if not each.startswith(SAFE_LINKS)] == []


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_declaration_shadows_an_import(module: Path) -> None:
    text = module.read_text()
    clauses = re.findall(r"^import (?:\w+, )?\{([^}]*)\}", text, re.MULTILINE)
    names = [each for clause in clauses for each in clause.split(",")]
    imported = {each.split()[-1] for each in names if each.strip()}
    declared = set(re.findall(r"\b(?:const|let|var|function) (\w+)", text))
    assert imported & declared == set()


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_module_fits_into_one_view(module: Path) -> None:
    assert len(module.read_text().splitlines()) < 500


def test_there_are_modules() -> None:
    assert len(MODULES) > 25
