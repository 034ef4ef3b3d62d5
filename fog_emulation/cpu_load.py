"""Artificial processor load: ``python -m fog_emulation.cpu_load CORES MILLISECONDS``."""

import math
import multiprocessing
import sys
import time

_SLICE_S = 0.05


def main(cores: float, duration_ms: float) -> None:
    """Keep ``cores`` cores busy for ``duration_ms``.

    For a fraction of a core, a process alternates between work and sleep.
    """
    end = time.monotonic() + duration_ms / 1000
    shares = [min(1.0, cores - number) for number in range(math.ceil(cores))]
    workers = [multiprocessing.Process(target=_work, args=(share, end)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _work(share: float, end: float) -> None:
    while (now := time.monotonic()) < end:
        while time.monotonic() < now + _SLICE_S * share:
            pass
        time.sleep(_SLICE_S * (1 - share))


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
