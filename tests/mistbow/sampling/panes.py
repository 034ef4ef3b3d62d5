"""Panes of made-up points for the tests of sampling."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mistbow.sampling.reservoir import Floats, Sample

WIDTH_MS = 5000


def pane(end: int, strata: Sequence[str], values: Floats) -> Sample:
    """Return all points of a pane, which are at one time and told apart by their place."""
    identities = np.arange(len(values), dtype=np.uint64)
    ts = np.full(len(values), end, np.int64)
    return Sample.of("cpu", end, pa.array(strata, pa.string()), ts, identities, values)


def sensors(
    random: np.random.Generator, number: int, each: int, skewed: bool = False
) -> tuple[list[str], Floats]:
    """Return the strata and values of sensors of which each has its own level, from 5 to 60."""
    levels = np.repeat(np.linspace(5, 60, number), each)
    if skewed:
        values = random.gamma(4.0, levels / 4)
    else:
        values = random.normal(levels, 0.3 * levels)
    return [f"sensor{place:03}" for place in range(number) for _ in range(each)], values
