"""Quantities: what is one, and what is none."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.fog_emulation import units


@given(st.integers(0, 10**6))
def test_whole_quantities_are_exact(number: int) -> None:
    assert units.bits_per_second(f"{number}Mbps") == number * 10**6
    assert units.memory_bytes(f"{number}M") == number * 2**20
    assert units.milliseconds(f"{number}ms") == number


@pytest.mark.parametrize(
    "parse", [units.bits_per_second, units.memory_bytes, units.milliseconds, units.probability]
)
@pytest.mark.parametrize("text", ["", "5", "-1ms", "1 furlong", "1e3ms", "ms", 5, None])
def test_what_is_no_quantity_is_refused(parse: Callable[[object], float], text: object) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        parse(text)
