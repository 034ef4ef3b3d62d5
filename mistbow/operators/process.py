"""The process that runs what is another package's: it tells of operators, and calls them.

``python -m mistbow.operators.process describe PLACE…`` writes a line of JSON for each; with
``call`` it answers calls on stdin, in MessagePack behind their length, one after the other.
"""

import inspect
import math
import numbers
import os
import signal
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import BinaryIO

import msgspec
import numpy as np

from mistbow.operators.interface import GROUP, MOST_METRICS, NAME, VERSION, Installed, Operator

_LONGEST_S = 60
"""Nobody waits so long for descriptions."""

LENGTH = 4
"""Bytes before a message, which tell its length, the first the least."""


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A window: the values of each metric are floats as they are in memory.

    Without values, the operator is loaded only.
    """

    place: str
    parameters: dict[str, float]
    values: tuple[bytes, ...]
    seconds: int
    """After which a call that nobody waits for any more ends its process."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What an operator said: a value or none, or why there is none."""

    value: float | None = None
    problem: str | None = None


def main(mode: str, places: list[str]) -> None:
    """Describe the operators at these places, or answer calls until there are no more."""
    # The answers have stdout to themselves: what an operator prints goes to stderr.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        if mode == "describe":
            signal.alarm(_LONGEST_S)
            for place in places:
                answers.write(msgspec.json.encode(_described(place)) + b"\n")
                answers.flush()
        else:
            _answer(sys.stdin.buffer, answers)


def described(place: str) -> Installed:
    """Return what is installed at a place; raises ``ValueError`` where that is no operator."""
    operator = _load(place)
    name, version = getattr(operator, "name", None), getattr(operator, "version", None)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"its name is {name!r}: it must be a word of letters, digits and `_`")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        raise ValueError(f"its version is {version!r}: it must be numbers, as in '1.0'")
    if not callable(getattr(operator, "compute", None)):
        raise ValueError("it has no method `compute`")
    arguments = inspect.signature(operator.compute).parameters.values()
    metrics = [a for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
    parameters = [a for a in arguments if a.kind is a.KEYWORD_ONLY]
    if len(metrics) + len(parameters) < len(arguments):
        raise ValueError("its `compute` takes *args or **kwargs: name what it takes")
    if not 1 <= len(metrics) <= MOST_METRICS:
        raise ValueError(f"its `compute` takes the values of {len(metrics)} metrics, not 1 or 2")
    needed = [a.default is a.empty for a in parameters]
    if needed != sorted(needed, reverse=True):
        raise ValueError("a parameter of its `compute` without a default is behind one with one")
    names = tuple(a.name for a in parameters)
    return Installed(name.upper(), version, place, len(metrics), names, sum(needed))


def _described(place: str) -> Installed | str:
    try:
        return described(place)
    except (Exception, SystemExit) as error:
        return _in_words(error)


def _answer(calls: BinaryIO, answers: BinaryIO) -> None:
    decoder = msgspec.msgpack.Decoder(Call)
    while length := calls.read(LENGTH):
        call = decoder.decode(calls.read(int.from_bytes(length, "little")))
        # Should whoever waits die, nobody else would end an operator that hangs.
        signal.alarm(call.seconds)
        answer = msgspec.msgpack.encode(_called(call))
        signal.alarm(0)
        answers.write(len(answer).to_bytes(LENGTH, "little") + answer)
        answers.flush()


def _called(call: Call) -> Answer:
    try:
        # As copies, for an operator may sort in place.
        values = [np.frombuffer(each, np.float64).copy() for each in call.values]
        operator = _load(call.place)
        said: object = operator.compute(*values, **call.parameters) if values else None
        if said is None:
            return Answer()
        if isinstance(said, bool) or not isinstance(said, numbers.Real):
            return Answer(problem=f"it returned no number, but {type(said).__name__}")
        value = float(said)
    except (Exception, SystemExit) as error:
        return Answer(problem=_in_words(error))
    return Answer(value) if math.isfinite(value) else Answer(problem=f"it returned {value}")


@lru_cache(maxsize=64)
def _load(place: str) -> Operator:
    operator: Operator = EntryPoint("", place, GROUP).load()()
    return operator


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
