import pyarrow as pa

from analytics_worker.spark.feed_clock import complete

NOW = 1_700_000_000_000


def test_a_time_far_ahead_of_the_clock_does_not_tell_how_far_a_stream_is() -> None:
    microseconds = NOW * 1000
    assert complete(pa.chunked_array([[NOW, None], [microseconds, NOW - 5]]), NOW) == NOW - 1
    assert complete(pa.chunked_array([[NOW + 10_000, NOW + 10_001]]), NOW) == NOW + 9_999
    assert complete(pa.chunked_array([[microseconds]]), NOW) == 0
