"""Operators of other packages: found, described and called in a sandbox, even if they fail."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from analytics.operators.registry import installed
from analytics_worker.operators.caller import call, derive
from tests.support.operators import EXAMPLE, install_odd_operators
from tests.support.packages import install, make_importable

pytestmark = pytest.mark.usefixtures("processes")

VALUES = np.array([5.0, 1.0, 2.0, 3.0, 90.0, 4.0])


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_odd_operators(tmp_path, monkeypatch)


def test_two_versions_of_the_example_package_are_called_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed().operators == ()
    install(EXAMPLE, tmp_path)
    make_importable(tmp_path, monkeypatch)
    found = installed()
    assert found.problems == {}
    assert [(each.name, each.version, each.metrics) for each in found.operators] == [
        ("ACCEPTEDCOSTS", "1.0", 0), ("GAP", "1.0", 2), ("IPTOCOUNTRY", "1.0", 0),
        ("LEGALCOUNTRIES", "1.0", 0), ("LETTERS", "1.0", 0), ("TRIMMED_MEAN", "1.0", 1),
        ("TRIMMED_MEAN", "2.0", 1),
    ]  # fmt: skip
    newest = found.newest("TRIMMED_MEAN")
    assert newest is not None
    assert (newest.version, newest.parameters, newest.needed) == ("2.0", ("share",), 0)

    def values_of(name: str, version: str, *parameters: float) -> list[float | None]:
        windows = [[VALUES, VALUES + 1], [np.array([8.0]), np.array([6.0])]]
        metrics = 2 if name == "GAP" else 1
        answers = call(name, version, parameters, [window[:metrics] for window in windows])
        assert not any(answer.problem for answer in answers)
        return [answer.value for answer in answers]

    assert values_of("TRIMMED_MEAN", "1.0") == [VALUES.mean(), 8.0]
    assert values_of("TRIMMED_MEAN", "2.0") == [3.5, 8.0]
    assert values_of("TRIMMED_MEAN", "1.0", 0.5) == [None, 8.0]
    assert values_of("GAP", "1.0") == [1.0, 2.0]
    (missing,) = call("TRIMMED_MEAN", "3.0", (), [[VALUES]])
    assert missing.problem == "the operator is not installed on this worker"


@pytest.mark.usefixtures("odd")
def test_registry_reports_invalid_operators_and_finds_the_others() -> None:
    found = installed()
    wrong = {place.partition(":")[2]: problem for place, problem in found.problems.items()}
    twins = "TWIN 1.0 is declared several times: odd_operators:OtherTwin, odd_operators:Twin"
    assert wrong == {
        "Deadly": "the process exited with code 3",
        "Nameless": "ValueError: `name` is None: it must be a word of letters, digits and `_`",
        "Unversioned": "ValueError: `version` is 'newest': it must be numbers, as in '1.0'",
        "Greedy": "ValueError: `compute` takes *args or **kwargs: name each argument",
        "Crowded": "ValueError: `derive` has 5 arguments: it must have 1 to 4",
        "Twin": twins,
        "OtherTwin": twins,
        "Sum": "SUM is a word of the language: choose another name",
    }
    assert {each.name for each in found.operators} >= {"STEADY", "RAISING"}


@pytest.mark.usefixtures("odd")
def test_failed_window_has_no_value_and_other_windows_have_theirs() -> None:
    def values_of(name: str, *values: float) -> list[tuple[float | None, str | None]]:
        windows = [[np.array([value, value])] for value in values]
        answers = call(name, "1.0", (), windows, limit_s=0.3)
        return [(answer.value, answer.problem) for answer in answers]

    assert values_of("RAISING", 1, 2, 0) == [
        (1.0, None), (None, "ValueError: the stars stand badly"), (1.0, None),
    ]  # fmt: skip
    assert values_of("WORDED", 1) == [(None, "`compute` returned no number, but str")]
    assert values_of("INFINITE", 1) == [(None, "`compute` returned inf")]
    assert values_of("HUGE", 1) == [(None, "OverflowError: int too large to convert to float")]
    assert values_of("LEAVING", 1) == [(None, "SystemExit: 4")]
    assert values_of("UNDECIDED", 1) == [(None, None)]
    rests = "; the operator is called again after 30 s"
    assert (
        values_of("DYING", 1, 2)
        == [(None, f"the operator's process ended before it answered (exit code 7){rests}")] * 2
    )
    # Its pipe closes before it ends, and its exit code is still reported.
    assert values_of("CLOSING", 1) == [
        (None, f"the operator's process ended before it answered (exit code 5){rests}")
    ]
    # All windows share one limit: many slow windows take no longer than a window that hangs.
    slow = f"the operator gave no answer within 0.308 s{rests}"
    answers = values_of("SLOW", *range(1, 9))
    assert answers[0] == (1.0, None)
    assert answers[3:] == [(None, slow)] * 5
    # The second window, and what comes later, is not waited for.
    assert (
        values_of("HANGING", 1, 2)
        == [(None, f"the operator gave no answer within 0.302 s{rests}")] * 2
    )
    assert values_of("STEADY", 4) == [(4.0, None)]


@pytest.mark.usefixtures("odd")
def test_operator_over_attributes_derives_values_and_sorted_sets() -> None:
    assert derive("DERIVING", "1.0", (1.0, True)).derived == (1.0, True)
    assert derive("DERIVING", "1.0", (True, 1.0)).derived == (True, 1.0)
    assert derive("DERIVING", "1.0", ("b", "a")).derived == ("a", "b", 2.0)
    failed = derive("DERIVING", "1.0", ("wrong", "a"))
    assert failed.derived is None
    assert failed.problem is not None
    assert "which is no text, number or boolean" in failed.problem


@pytest.mark.usefixtures("odd")
def test_threads_that_derive_together_get_their_own_answers() -> None:
    given = [(f"thread {number}", "x") for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: derive("DERIVING", "1.0", each), given))
    assert [answer.problem for answer in answers] == [None] * len(given)
    assert [answer.derived for answer in answers] == [(name, "x", 2.0) for name, _ in given]


@pytest.mark.usefixtures("odd")
def test_the_windows_of_each_tick_have_a_limit_of_their_own() -> None:
    values, ticks = (2, 2, 2, 2, 1, 1, 1, 1), (5, 6, 7, 8, 5, 6, 7, 8)
    windows = [[np.array([float(value)])] for value in values]
    answers = call("SLOW", "1.0", (), windows, limit_s=0.4, ticks=ticks)
    assert [answer.value for answer in answers] == list(values)
    together = call("SLOW", "1.0", (), windows, limit_s=0.4)
    assert [answer.value for answer in together][3:] == [None] * 5
