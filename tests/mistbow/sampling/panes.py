"""Panes of made-up points for the tests of sampling."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mistbow.sampling.reservoir import Floats, Sample


def pane(end: int, strata: Sequence[str], values: Floats) -> Sample:
    """Return all points of a pane, which are at one time and told apart by their place."""
    identities = np.arange(len(values), dtype=np.uint64)
    ts = np.full(len(values), end, np.int64)
    return Sample.of("cpu", end, pa.array(strata, pa.string()), ts, identities, values)
