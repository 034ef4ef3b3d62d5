"""The duration of the crash tests: short in CI, long with ``make crash``."""

import os


def _number(name: str, default: int) -> int:
    return int(os.environ.get(f"MISTBOW_{name}", default))


ROUNDS = _number("ROUNDS", 2)
"""The number of times that each process is killed."""

POWER_CUTS = _number("ROUNDS", 2)
FROZEN_S = _number("FROZEN_S", 10)
CUT_REPLIES = _number("CUT_REPLIES", 100)
EXAMPLES = _number("EXAMPLES", 20)
"""The number of random interleavings of operations that are tried."""
