"""Operators of other packages: found, described and called in a process, whatever they do."""

from pathlib import Path

import numpy as np
import pytest

from mistbow.operators.calling import call
from mistbow.operators.installed import installed
from tests.support.operators import EXAMPLE, know_odd_ones
from tests.support.packages import install, make_known

VALUES = np.array([5.0, 1.0, 2.0, 3.0, 90.0, 4.0])


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know_odd_ones(tmp_path, monkeypatch)


def test_two_versions_of_the_example_package_are_called_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed().operators == ()
    install(EXAMPLE, tmp_path)
    make_known(tmp_path, monkeypatch)
    found = installed()
    assert found.problems == {}
    assert [(each.name, each.version, each.metrics) for each in found.operators] == [
        ("GAP", "1.0", 2), ("TRIMMED_MEAN", "1.0", 1), ("TRIMMED_MEAN", "2.0", 1),
    ]  # fmt: skip
    newest = found.newest("TRIMMED_MEAN")
    assert newest is not None
    assert (newest.version, newest.parameters, newest.needed) == ("2.0", ("share",), 0)

    def said(name: str, version: str, *parameters: float) -> list[float | None]:
        windows = [[VALUES, VALUES + 1], [np.array([8.0]), np.array([6.0])]]
        metrics = 2 if name == "GAP" else 1
        answers = call(name, version, parameters, [window[:metrics] for window in windows])
        assert not any(answer.problem for answer in answers)
        return [answer.value for answer in answers]

    assert said("TRIMMED_MEAN", "1.0") == [VALUES.mean(), 8.0]
    assert said("TRIMMED_MEAN", "2.0") == [3.5, 8.0]
    assert said("TRIMMED_MEAN", "1.0", 0.5) == [None, 8.0]
    assert said("GAP", "1.0") == [1.0, 2.0]
    (missing,) = call("TRIMMED_MEAN", "3.0", (), [[VALUES]])
    assert missing.problem == "it is not installed here"


@pytest.mark.usefixtures("odd")
def test_what_is_no_operator_is_told_and_keeps_no_other_from_being_found() -> None:
    found = installed()
    wrong = {place.partition(":")[2]: problem for place, problem in found.problems.items()}
    twins = "TWIN 1.0 is several: odd_operators:OtherTwin, odd_operators:Twin"
    assert wrong == {
        "Deadly": "its process ended with 3",
        "Nameless": "ValueError: its name is None: it must be a word of letters, digits and `_`",
        "Unversioned": "ValueError: its version is 'newest': it must be numbers, as in '1.0'",
        "Greedy": "ValueError: its `compute` takes *args or **kwargs: name what it takes",
        "Twin": twins,
        "OtherTwin": twins,
        "Sum": "SUM is a word of the language, which means its own: choose another name",
    }
    assert {each.name for each in found.operators} >= {"STEADY", "RAISING"}


@pytest.mark.usefixtures("odd")
def test_one_that_fails_leaves_its_answer_open_and_the_others_theirs() -> None:
    def said(name: str, *values: float) -> list[tuple[float | None, str | None]]:
        windows = [[np.array([value, value])] for value in values]
        answers = call(name, "1.0", (), windows, limit_s=0.3)
        return [(answer.value, answer.problem) for answer in answers]

    assert said("RAISING", 1, 2, 0) == [
        (1.0, None), (None, "ValueError: the stars stand badly"), (1.0, None),
    ]  # fmt: skip
    assert said("WORDED", 1) == [(None, "it returned no number, but str")]
    assert said("INFINITE", 1) == [(None, "it returned inf")]
    assert said("HUGE", 1) == [(None, "OverflowError: int too large to convert to float")]
    assert said("LEAVING", 1) == [(None, "SystemExit: 4")]
    assert said("UNDECIDED", 1) == [(None, None)]
    rests = "; it is tried again after 30 s"
    assert said("DYING", 1, 2) == [(None, f"its process ended with 7{rests}")] * 2
    # Its pipe closes before it ends, and its code is told all the same.
    assert said("CLOSING", 1) == [(None, f"its process ended with 5{rests}")]
    # All windows have one limit: many slow ones take no longer than one that hangs.
    slow = f"it gave no answer within 0.308 s{rests}"
    answers = said("SLOW", *range(1, 9))
    assert answers[0] == (1.0, None)
    assert answers[3:] == [(None, slow)] * 5
    # The second window, and what comes later, is not waited for.
    assert said("HANGING", 1, 2) == [(None, f"it gave no answer within 0.302 s{rests}")] * 2
    assert said("STEADY", 4) == [(4.0, None)]


@pytest.mark.usefixtures("odd")
def test_the_windows_of_each_tick_have_a_limit_of_their_own() -> None:
    values, ticks = (2, 2, 2, 2, 1, 1, 1, 1), (5, 6, 7, 8, 5, 6, 7, 8)
    windows = [[np.array([float(value)])] for value in values]
    answers = call("SLOW", "1.0", (), windows, limit_s=0.4, ticks=ticks)
    assert [answer.value for answer in answers] == list(values)
    together = call("SLOW", "1.0", (), windows, limit_s=0.4)
    assert [answer.value for answer in together][3:] == [None] * 5
