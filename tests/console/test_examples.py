"""The examples of the editor are right for any metric and attribute."""

import json
import re

import pytest

from analytics_enabler.semantics import check
from console.pages import static_folder

EXAMPLES = json.loads((static_folder() / "examples.json").read_text())
NAMES = {"metric": "delay", "attribute": "region", "second": "line", "value": '"north"'}
QUOTED = {
    **{"metric": '"disk read/s"', "attribute": '"my label"', "second": '"my other"'},
    "value": '"seven"',
}


@pytest.mark.parametrize("names", [NAMES, QUOTED], ids=["plain", "quoted"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["title"])
def test_example_has_no_problems(example: dict[str, str], names: dict[str, str]) -> None:
    text = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], example["text"])
    assert check(text).problems == ()


def test_forms_of_the_summary_are_of_the_language() -> None:
    source = (static_folder() / "pages" / "assistant.js").read_text()
    (shown,) = re.findall(r'\$\{"(worst_delay = [^"]+)"\}', source)
    assert check(shown.replace("\\n", "\n")).problems == ()
