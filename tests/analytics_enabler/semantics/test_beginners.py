"""Texts of users of other query languages get one helpful answer."""

from pathlib import Path

import pytest

from tests.analytics_enabler.semantics.beginners import FOLDER, answers_to, golden, texts_of

FILES = sorted(FOLDER.glob("*.txt"))
_GENERAL = ("An insight looks like this", "Functions: ", "Write an operator between two values")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_answers_to_beginners_are_as_stored(file: Path) -> None:
    content = file.read_text(encoding="utf-8")
    assert golden(content) == content


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_text_has_one_answer_with_a_hint_of_its_own(file: Path) -> None:
    for text in texts_of(file.read_text(encoding="utf-8")):
        answers = answers_to(text)
        if text.startswith("entityID"):  # once a needless warning
            assert answers == (), text
            continue
        severity = "warning" if file.stem == "levels" else "error"
        assert [answer.severity for answer in answers] == [severity], text
        assert not (answers[0].hint or "").startswith(_GENERAL), text


def test_there_are_texts_of_five_other_languages() -> None:
    assert {"sql", "promql", "influxql", "flux", "kql"} <= {file.stem for file in FILES}
    count = sum(len(texts_of(file.read_text(encoding="utf-8"))) for file in FILES)
    assert count >= 63
