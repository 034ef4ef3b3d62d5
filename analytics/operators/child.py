"""The process that describes and calls operators of other packages.

``python -m analytics.operators.child describe ENTRY_POINT…`` writes a line of JSON for each entry
point. With ``call`` the process reads calls from stdin and answers them in order. Calls and answers
are MessagePack, prefixed with their length.
"""

import inspect
import math
import numbers
import signal
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any, BinaryIO

import msgspec
import numpy as np

from analytics.operators.interface import (
    GROUP,
    MAX_ATTRIBUTES,
    MAX_METRICS,
    NAME,
    VERSION,
    AttributeOperator,
    Derivation,
    InstalledOperator,
    Operator,
)
from analytics.sandbox import answers

_MAX_S = 60
"""The time (s) after which a describing process ends itself, in case its parent has died."""

LENGTH_BYTES = 4
"""The number of bytes of the length (little-endian) that precedes each message."""


class OperatorCall(msgspec.Struct, frozen=True, array_like=True):
    """A call of an operator for one window.

    ``values``: for each metric, the bytes of a float64 array. ``attributes``: the attributes of a
    point, for an operator over attributes. If both are empty, the operator is only loaded. If the
    call takes longer than ``seconds``, the process ends itself, in case its parent has died.
    """

    entry_point: str
    parameters: dict[str, float]
    values: tuple[bytes, ...]
    seconds: int
    attributes: tuple[str | float | bool, ...] = ()


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a call: the operator's ``value``, or the ``problem`` if the call failed.

    ``value`` is None if the operator returned no value, and if the call failed. ``problem`` is None
    if the call succeeded. ``derived``: the value of an operator over attributes.
    """

    value: float | None = None
    problem: str | None = None
    derived: Derivation = None


def main(mode: str, entry_points: list[str]) -> None:
    """Describe the operators at the given entry points, or answer calls until stdin ends."""
    with answers() as output:
        if mode == "describe":
            signal.alarm(_MAX_S)
            for entry_point in entry_points:
                output.write(msgspec.json.encode(_description(entry_point)) + b"\n")
                output.flush()
        else:
            _serve(sys.stdin.buffer, output)


def describe(entry_point: str) -> InstalledOperator:
    """Return the description of the operator at an entry point.

    Raises ``ValueError`` if the class breaks the rules of ``Operator``.
    """
    operator = _load(entry_point)
    name, version = getattr(operator, "name", None), getattr(operator, "version", None)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"`name` is {name!r}: it must be a word of letters, digits and `_`")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        raise ValueError(f"`version` is {version!r}: it must be numbers, as in '1.0'")
    if callable(derive := getattr(operator, "derive", None)):
        taken = inspect.signature(derive).parameters.values()
        if any(a.kind not in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD) for a in taken):
            raise ValueError("`derive` may have positional arguments only")
        if not 1 <= len(taken) <= MAX_ATTRIBUTES:
            raise ValueError(
                f"`derive` has {len(taken)} arguments: it must have 1 to {MAX_ATTRIBUTES}"
            )
        return InstalledOperator(name.upper(), version, entry_point, 0, attributes=len(taken))
    if not callable(getattr(operator, "compute", None)):
        raise ValueError("the class has neither a method `compute` nor a method `derive`")
    arguments = inspect.signature(operator.compute).parameters.values()
    metrics = [a for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
    parameters = [a for a in arguments if a.kind is a.KEYWORD_ONLY]
    if len(metrics) + len(parameters) < len(arguments):
        raise ValueError("`compute` takes *args or **kwargs: name each argument")
    if not 1 <= len(metrics) <= MAX_METRICS:
        raise ValueError(f"`compute` has {len(metrics)} positional arguments: it must have 1 or 2")
    needed = [a.default is a.empty for a in parameters]
    if needed != sorted(needed, reverse=True):
        raise ValueError("`compute` has a parameter without a default after one with a default")
    names = tuple(a.name for a in parameters)
    return InstalledOperator(name.upper(), version, entry_point, len(metrics), names, sum(needed))


def _description(entry_point: str) -> InstalledOperator | str:
    try:
        return describe(entry_point)
    except (Exception, SystemExit) as error:
        return _message(error)


def _serve(calls: BinaryIO, output: BinaryIO) -> None:
    decoder = msgspec.msgpack.Decoder(OperatorCall)
    while length := calls.read(LENGTH_BYTES):
        call = decoder.decode(calls.read(int.from_bytes(length, "little")))
        signal.alarm(call.seconds)
        answer = msgspec.msgpack.encode(_call(call))
        signal.alarm(0)
        output.write(len(answer).to_bytes(LENGTH_BYTES, "little") + answer)
        output.flush()


def _call(call: OperatorCall) -> Answer:
    try:
        # Copies, as an operator may sort in place.
        values = [np.frombuffer(each, np.float64).copy() for each in call.values]
        operator = _load(call.entry_point)
        if call.attributes:
            return Answer(derived=_derivation(operator.derive(*call.attributes)))
        result: object = operator.compute(*values, **call.parameters) if values else None
        if result is None:
            return Answer()
        if isinstance(result, bool) or not isinstance(result, numbers.Real):
            return Answer(problem=f"`compute` returned no number, but {type(result).__name__}")
        value = float(result)
    except (Exception, SystemExit) as error:
        return Answer(problem=_message(error))
    return Answer(value) if math.isfinite(value) else Answer(problem=f"`compute` returned {value}")


def _derivation(result: object) -> Derivation:
    """Return the result of ``derive`` in the form that is sent.

    Raises ``ValueError`` for a result of another form.
    """
    if result is None:
        return None
    if isinstance(result, list | tuple | set | frozenset):
        values = [_scalar(each) for each in result]
        # Sets have no order.
        return tuple(sorted(values, key=repr) if isinstance(result, set | frozenset) else values)
    return _scalar(result)


def _scalar(value: object) -> str | float | bool:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise ValueError(f"`derive` returned {value!r}, which is no text, number or boolean"[:200])


@lru_cache(maxsize=64)
def _load(entry_point: str) -> Any:
    operator: Operator | AttributeOperator = EntryPoint("", entry_point, GROUP).load()()
    return operator


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
