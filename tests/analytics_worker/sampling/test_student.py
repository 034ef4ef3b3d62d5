import pytest

from analytics_worker.sampling.student import t_quantile


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"),
    [
        (0.95, 1, 12.7062),
        (0.95, 2, 4.30265),
        (0.95, 3, 3.18245),
        (0.99, 4, 4.60409),
        (0.999, 5, 6.86883),
        (0.5, 3, 0.764892),
        (0.1, 4, 0.133830),
        (0.95, 30, 2.04227),
        (0.95, 10**9, 1.959964),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, t: float) -> None:
    assert t_quantile(confidence, freedom) == pytest.approx(t, rel=1e-5)
