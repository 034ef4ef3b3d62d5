"""Quantiles of Student's t distribution."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, freedom: int) -> float:
    """Return the t for which a Student-t variable lies within ±t with the probability
    ``confidence``.

    ``confidence`` is in (0, 1). ``freedom``: the degrees of freedom, at least 1.

    >>> round(t_quantile(0.95, 5), 3)
    2.571
    """
    # Only windows over a part of their points need a quantile, and the import takes 0.1 s.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))
