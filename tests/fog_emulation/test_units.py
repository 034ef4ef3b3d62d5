"""Parsing of quantities."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fog_emulation import units


@given(st.integers(0, 10**6))
def test_parse_is_exact_for_whole_quantities(number: int) -> None:
    assert units.bits_per_second(f"{number}Mbps") == number * 10**6
    assert units.memory_bytes(f"{number}M") == number * 2**20
    assert units.milliseconds(f"{number}ms") == number


@pytest.mark.parametrize(
    "parse", [units.bits_per_second, units.memory_bytes, units.milliseconds, units.probability]
)
@pytest.mark.parametrize("text", ["", "5", "-1ms", "1 furlong", "1e3ms", "ms", 5, None])
def test_parse_rejects_text_that_is_no_quantity(
    parse: Callable[[object], float], text: object
) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse(text)
