import msgspec
import pytest

from analytics.plan.status import FragmentState, FragmentStatus
from analytics_enabler.execution.rate_meter import STEP_S, FragmentMeter, FragmentRates


def status(
    seconds: float, state: FragmentState = "running", version: str = "1", queries: int = 1
) -> FragmentStatus:
    """Return the status of a fragment that has run for some time at constant rates."""
    return FragmentStatus(
        id="f",
        fingerprint=version,
        state=state,
        active=version,
        frontier=round(1000 * seconds),
        batches=round(seconds),
        queries=queries,
        cpu_s=0.1 * seconds,
        rows_read=round(50 * seconds),
        bytes_written=round(200 * seconds),
    )


@pytest.mark.parametrize(
    ("batches_per_s", "grain_ms", "on_time"),
    [(1.0, 1000, True), (0.5, 1000, False), (0.5, 2000, True), (0.2, 10_000, True)],
)
def test_fragment_is_delayed_if_a_micro_batch_computes_several_ticks(
    batches_per_s: float, grain_ms: int, on_time: bool
) -> None:
    meter = FragmentMeter()
    for at in range(0, 61, 5):
        batches = round(batches_per_s * at)
        meter.read(at, msgspec.structs.replace(status(at), batches=batches))
    rates = meter.rates(45)
    assert rates is not None
    assert rates.progress == 1.0
    assert rates.is_on_time(grain_ms) is on_time


def test_fragment_with_short_steps_is_on_time_with_several_in_a_micro_batch() -> None:
    assert FragmentRates(60.0, 0.1, 50.0, 200.0, 2.0, 1.0).is_on_time(grain_ms=200)
    assert not FragmentRates(60.0, 0.1, 50.0, 200.0, 0.5, 1.0).is_on_time(grain_ms=200)


def test_meter_measures_cores_rows_and_bytes() -> None:
    meter = FragmentMeter()
    for step in range(10):
        assert meter.rates(8 * STEP_S) is None or step > 8
        meter.read(step * STEP_S, status(step * STEP_S))
    rates = meter.rates(8 * STEP_S)
    assert rates is not None
    found = (rates.cores, rates.rows, rates.written_bytes, rates.batches, rates.progress)
    assert [round(each, 6) for each in found] == [0.1, 50.0, 200.0, 1.0, 1.0]
    assert rates.is_on_time(grain_ms=1000)
    assert (meter.version, meter.written_bytes.rate) == ("1", 200.0)


def test_meter_begins_again_with_each_version_and_after_a_handover() -> None:
    meter = FragmentMeter()
    meter.read(0, status(0))
    meter.read(60, status(60))
    assert meter.rates(30) is not None
    meter.read(65, status(65, queries=2))
    assert (meter.rates(30), meter.version) == (None, None)
    meter.read(70, status(70, version="2"))
    meter.read(80, status(80, version="2"))
    assert (meter.rates(30), meter.version) == (None, "2")
    meter.read(110, status(110, version="2"))
    assert meter.rates(30) is not None


def test_meter_ignores_the_start_of_a_version() -> None:
    meter = FragmentMeter(45)
    for at in range(0, 71, 5):
        # The start takes ten times as much.
        cpu_s = 0.1 * at + 0.9 * min(at, 40)
        meter.read(at, msgspec.structs.replace(status(at), cpu_s=cpu_s))
        assert (meter.rates(25) is None) is (at < 70)
    rates = meter.rates(25)
    assert rates is not None
    assert rates.cores == pytest.approx(0.1)
    meter.read(75, status(75, version="2"))
    meter.read(119, status(119, version="2"))
    meter.read(145, status(145, version="2"))
    assert meter.rates(25) is None
    meter.read(170, status(170, version="2"))
    assert meter.rates(25) is not None


def test_new_meter_measures_a_version_at_once_that_has_run_for_long() -> None:
    meter = FragmentMeter(45)
    meter.read(0, status(600))
    meter.read(25, status(625))
    assert meter.rates(25) is not None


def test_meter_ignores_a_fragment_that_is_shed() -> None:
    meter = FragmentMeter()
    meter.read(0, status(0, state="shed"))
    meter.read(60, status(60, state="shed"))
    assert (meter.rates(30), meter.version) == (None, None)


@pytest.mark.parametrize(("progress", "on_time"), [(0.2, False), (0.9, True), (3.0, False)])
def test_fragment_is_on_time_if_results_advance_as_time_does(
    progress: float, on_time: bool
) -> None:
    rates = FragmentRates(60.0, 0.1, 50.0, 200.0, 1.0, progress)
    assert rates.is_on_time(grain_ms=1000) is on_time
    assert FragmentRates(60.0, 0.1, 50.0, 200.0, 1.0, 0.0).is_on_time(grain_ms=60_000)


def feed_status(seconds: int, *, row_every_s: int, batch_ms: int) -> FragmentStatus:
    """Return the status of a fragment of a feed, with a micro-batch for each row."""
    rows = seconds // row_every_s
    return msgspec.structs.replace(
        status(seconds),
        frontier=1000 * row_every_s * rows,
        batches=rows,
        rows_read=rows,
        spent_ms={"triggerExecution": 900 * seconds, "addBatch": batch_ms * rows},
    )


@pytest.mark.parametrize(
    ("row_every_s", "batch_ms", "on_time"),
    [(30, 400, True), (600, 400, False), (5, 4900, False)],
    ids=["a row in many ticks", "no row in a minute", "delayed"],
)
def test_fragment_of_a_feed_with_sparse_rows_is_on_time_if_it_computes_at_times(
    row_every_s: int, batch_ms: int, on_time: bool
) -> None:
    meter = FragmentMeter()
    for at in range(0, 61, 5):
        meter.read(at, feed_status(at, row_every_s=row_every_s, batch_ms=batch_ms))
    rates = meter.rates(45)
    assert rates is not None
    assert rates.is_on_time(grain_ms=1000, is_feed=True) is on_time
    assert not rates.is_on_time(grain_ms=1000)


def test_fragment_that_replays_a_feed_is_not_on_time() -> None:
    rates = FragmentRates(60.0, 0.9, 5000.0, 200.0, 1.0, progress=40.0, busy=0.95)
    assert not rates.is_on_time(grain_ms=1000, is_feed=True)


@pytest.mark.parametrize(
    ("progress", "busy", "least"),
    [
        (0.5, 0.9, 0.6),
        (0.02, 0.9, 3.0),
        (1.0, 0.9, 0.3),
        (30.0, 0.9, 0.01),
        (0.5, 0.2, None),
        (0.0, 0.9, None),
    ],
    ids=["delayed", "overloaded", "several ticks at once", "replay", "waits for data", "stuck"],
)
def test_delayed_fragment_needs_what_it_takes_for_its_progress(
    progress: float, busy: float, least: float | None
) -> None:
    rates = FragmentRates(60.0, 0.3, 50.0, 200.0, 0.2, progress, busy)
    assert not rates.is_on_time(grain_ms=1000)
    assert rates.least_cores == (None if least is None else pytest.approx(least))
