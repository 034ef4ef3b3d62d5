"""Quantiles of Student's t distribution."""

import math
from functools import lru_cache
from statistics import NormalDist


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, freedom: int) -> float:
    """Return t such that a Student variable lies within ±t with this confidence, in (0, 1).

    ``freedom``: the degrees of freedom, at least 1. Exact for 1 and 2, else to five digits: Hill,
    "Algorithm 396: Student's t-quantiles", Communications of the ACM 13 (10), 1970.

    >>> round(t_quantile(0.95, 5), 3)
    2.571
    """
    outside, n = 1 - confidence, float(freedom)
    if freedom == 1:
        return 1 / math.tan(outside * math.pi / 2)
    if freedom == 2:
        return math.sqrt(2 / (outside * (2 - outside)) - 2)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * n
    y = (d * outside) ** (2 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(outside / 2)
        if n < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = x**2
        x *= ((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1
        y = math.expm1(a * x**2)
    else:
        y = (
            (1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1
        ) * (n + 1) / (n + 2) + 1 / y
    return math.sqrt(n * y)
