from pathlib import Path

from analytics_worker.lifecycle.drain_mark import DrainMark


def test_mark_survives_a_restart_until_it_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "home" / "drained-w1"
    assert not DrainMark(path).is_set
    DrainMark(path).set()
    mark = DrainMark(path)
    assert mark.is_set
    assert path.stat().st_mode & 0o777 == 0o600
    mark.set()
    mark.clear()
    assert not mark.is_set
    assert not DrainMark(path).is_set
    mark.clear()
