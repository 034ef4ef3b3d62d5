"""A scheduler whose module takes longer to load than a call may take."""

import time

from crowd import Roomiest

LOADING_S = 3.0

time.sleep(LOADING_S)


class Slow(Roomiest):
    """Places jobs as ``Roomiest`` does."""
