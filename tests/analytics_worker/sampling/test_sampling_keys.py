import numpy as np

from analytics_worker.sampling.sampling_keys import sampling_keys, seed


def test_every_point_is_as_often_among_the_lowest() -> None:
    points, size, panes = 20, 5, 2000
    times = np.zeros(points)
    for end in range(panes):
        seeds = np.full(points, seed("cpu", end, "a"), np.uint64)
        drawn = sampling_keys(seeds, np.full(points, end), np.arange(points, dtype=np.uint64))
        times[np.argsort(drawn)[:size]] += 1
    expected = panes * size / points
    # Without replacement, the counts vary by (1 - size / points) of what independent ones would.
    chi_square = ((times - expected) ** 2 / expected).sum() / (1 - size / points)
    assert chi_square < 43.8  # 0.999 of a chi-square with 19 degrees of freedom
