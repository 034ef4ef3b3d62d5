"""How long the crash tests go on: a little in CI, and as far as the promise goes by make crash."""

import os


def _number(name: str, default: int) -> int:
    return int(os.environ.get(f"MISTBOW_{name}", default))


ROUNDS = _number("ROUNDS", 2)
"""So many times each process is killed."""

POWER_CUTS = _number("ROUNDS", 2)
FROZEN_S = _number("FROZEN_S", 10)
CUT_REPLIES = _number("CUT_REPLIES", 100)
EXAMPLES = _number("EXAMPLES", 20)
"""So many random interleavings are tried."""
