"""A package with faulty operators, and a correct one."""

import os
import time
from contextlib import suppress

import numpy as np


class Steady:
    name = "steady"
    version = "1.0"

    def compute(self, values, *, scale=1.0):
        print("an operator may print")
        values.sort()
        return scale * values[0]


class Raising:
    name = "Raising"
    version = "1.0"

    def compute(self, values):
        if values[0] > 1:
            raise ValueError("the stars stand badly\nvery badly")
        return 1


class Hanging:
    name = "hanging"
    version = "1.0"

    def compute(self, values):
        while True:
            with suppress(BaseException):
                time.sleep(60)


class Deriving:
    name = "deriving"
    version = "1.0"

    def derive(self, value, other):
        if value == "wrong":
            return {value: other}
        return {other, 2.0, value} if isinstance(value, str) else [value, other]


class Crowded:
    name = "crowded"
    version = "1.0"

    def derive(self, a, b, c, d, e):
        return a


class Dying:
    name = "dying"
    version = "1.0"

    def compute(self, values):
        os._exit(7)


class Slow:
    name = "slow"
    version = "1.0"

    def compute(self, values):
        time.sleep(0.15 if values[0] > 1 else 0)
        return values[0]


class Leaving:
    name = "leaving"
    version = "1.0"

    def compute(self, values):
        raise SystemExit(4)


class Huge:
    name = "huge"
    version = "1.0"

    def compute(self, values):
        return 10**400


class Closing:
    name = "closing"
    version = "1.0"

    def compute(self, values):
        os.closerange(0, 64)
        time.sleep(0.2)
        os._exit(5)


class Sum:
    name = "sum"
    version = "1.0"

    def compute(self, values):
        return 1


class Worded:
    name = "worded"
    version = "1.0"

    def compute(self, values):
        return "many"


class Infinite:
    name = "infinite"
    version = "1.0"

    def compute(self, values):
        return np.float64("inf")


class Undecided:
    name = "undecided"
    version = "1.0"

    def compute(self, values):
        return None


class Deadly:
    def __init__(self):
        os._exit(3)


class Nameless:
    version = "1.0"


class Unversioned:
    name = "unversioned"
    version = "newest"


class Greedy:
    name = "greedy"
    version = "1.0"

    def compute(self, *values):
        return 1


class Twin:
    name = "twin"
    version = "1.0"

    def compute(self, values):
        return 1


class OtherTwin(Twin):
    pass
