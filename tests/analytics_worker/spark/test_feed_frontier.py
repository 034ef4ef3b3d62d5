import pyarrow as pa

from analytics_worker.spark.feed_frontier import frontier_of_times

NOW = 1_700_000_000_000


def test_time_far_ahead_of_the_clock_does_not_move_the_frontier() -> None:
    microseconds = NOW * 1000
    assert (
        frontier_of_times(pa.chunked_array([[NOW, None], [microseconds, NOW - 5]]), NOW) == NOW - 1
    )
    assert frontier_of_times(pa.chunked_array([[NOW + 10_000, NOW + 10_001]]), NOW) == NOW + 9_999
    assert frontier_of_times(pa.chunked_array([[microseconds]]), NOW) == 0
