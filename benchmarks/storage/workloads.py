"""The YCSB core workloads: the shares of their operations, and operations in random order.

The workloads, their shares and the skew of 0.99 are taken from Cooper et al., "Benchmarking cloud
serving systems with YCSB" (2010), section 4.
"""

import random
import string
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Literal

RECORD_BYTES = 1000
_SKEW = 0.99
_MAX_SCAN = 100
_STRIDE = 7919
"""A prime number, by which the popular keys are spread over all keys."""

Operation = Literal["read", "update", "insert", "scan", "modify"]


@dataclass(frozen=True)
class Workload:
    """A workload: the share of each operation.

    ``newest``: whether reads prefer the newest keys.
    """

    name: str
    shares: dict[Operation, float]
    newest: bool = False


WORKLOADS = (
    Workload("A", {"read": 0.5, "update": 0.5}),
    Workload("B", {"read": 0.95, "update": 0.05}),
    Workload("C", {"read": 1.0}),
    Workload("D", {"read": 0.95, "insert": 0.05}, newest=True),
    Workload("E", {"scan": 0.95, "insert": 0.05}),
    Workload("F", {"read": 0.5, "modify": 0.5}),
)


@dataclass(frozen=True, slots=True)
class KeyOperation:
    """An operation on a key; ``count``: the number of records that a scan reads."""

    kind: Operation
    key: str
    count: int = 0


@dataclass
class OperationSource:
    """Draws the operations of a workload in random order.

    ``records``: the number of records that exist when the first operation is drawn.
    """

    workload: Workload
    chance: random.Random
    records: int
    _keys: int = field(init=False)

    def __post_init__(self) -> None:
        self._keys = self.records

    def next(self) -> KeyOperation:
        """Return the next operation."""
        shares = self.workload.shares
        [kind] = self.chance.choices(list(shares), list(shares.values()))
        if kind == "insert":
            self._keys += 1
            return KeyOperation(kind, key_of(self._keys - 1))
        weights = _zipf(self.records)
        rank = bisect_left(weights, self.chance.random() * weights[-1])
        newest = self._keys - 1 - rank
        key = key_of(newest if self.workload.newest else rank * _STRIDE % self.records)
        return KeyOperation(kind, key, self.chance.randint(1, _MAX_SCAN) if kind == "scan" else 0)


def key_of(number: int) -> str:
    """Return the key of a record.

    >>> key_of(7)
    'user0000000007'
    """
    return f"user{number:010d}"


def record_value(chance: random.Random) -> str:
    """Return a random value of ``RECORD_BYTES`` letters."""
    return "".join(chance.choices(string.ascii_letters, k=RECORD_BYTES))


@lru_cache
def _zipf(records: int) -> Sequence[float]:
    return list(accumulate(1 / rank**_SKEW for rank in range(1, records + 1)))
