"""Types of the fields in JSON bodies, with the bounds that decoders check."""

from typing import Annotated

from msgspec import Meta

MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The end of the year 9999, the greatest timestamp (ms) that the agent accepts."""

MAX_RETAIN_MS = 4 * 366 * 86_400_000
"""The longest period (ms) for which a retention lease retains rows: a window, its offset and EVERY
last 366 days each.
"""

_FINITE = Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)
Id = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(max_length=4096)]
Finite = Annotated[float, _FINITE]
# Not a Literal: its error would quote the text.
NON_FINITE = r"^(NaN|[+-]?Inf(inity)?|stale)(?!\n)$"
"""The pattern of the texts for numbers that JSON lacks."""

Value = Finite | Annotated[str, Meta(pattern=NON_FINITE)]
"""The value of a point: a number, or a text for a number that JSON lacks, such as NaN."""

Millis = (
    Annotated[int, Meta(ge=0, le=MAX_TIMESTAMP_MS)]
    | Annotated[float, Meta(ge=0, le=float(MAX_TIMESTAMP_MS))]
)
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Names = Annotated[frozenset[str], Meta(max_length=10_000)] | str | None
"""One name, or a list of names; null: the field restricts nothing."""

LabelValue = Int64 | Finite | bool | Text
