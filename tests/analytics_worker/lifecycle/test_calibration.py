from collections.abc import Callable
from pathlib import Path

import pytest

from analytics_worker.lifecycle.calibration import (
    calibrated_speed,
    calibration_key,
    measured_speed,
)


def failing() -> float:
    raise AssertionError("the speed was measured again")


def constant(speed: float) -> Callable[[], float]:
    return lambda: speed


def test_calibration_is_stored_for_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "home" / "calibration-n1.json"
    assert calibrated_speed(path, constant(0.5)) == 0.5
    assert calibrated_speed(path, failing) == 0.5


def test_calibration_of_another_processor_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "calibration-n1.json"
    calibrated_speed(path, constant(0.5), key="old")
    assert calibrated_speed(path, constant(2.0)) == 2.0


@pytest.mark.parametrize("content", ["", "{", '{"key": 1}', '{"key": "KEY", "speed": 0}'])
def test_damaged_calibration_is_measured_again(tmp_path: Path, content: str) -> None:
    path = tmp_path / "calibration-n1.json"
    path.write_text(content.replace("KEY", calibration_key()))
    assert calibrated_speed(path, constant(2.0)) == 2.0


def test_measured_speed_is_positive() -> None:
    assert 0.01 < measured_speed() < 100
