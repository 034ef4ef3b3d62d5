"""Segments: their cost for the garbage collector."""

import gc

from storage_agent.streams.segments import AppendResult


def test_collector_does_not_track_results_of_appends() -> None:
    results = {f"key-{n}": AppendResult(n, n + 1, 0) for n in range(100)}
    gc.collect()
    assert not any(map(gc.is_tracked, results.values()))
    # The collector stops visiting a dict whose values are not tracked.
    assert not gc.is_tracked(results)
