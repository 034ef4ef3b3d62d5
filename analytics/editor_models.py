"""The wire models for editors of insights: format, completion, and the preview of results.

All times are in milliseconds since the epoch.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from analytics.insight_models import Result, WindowCoverage
from grammar import Diagnostic

MAX_TEXT = 1_000_000
MAX_PREVIEW_MINUTES = 60
MAX_PREVIEW_RESULTS = 20_000

ItemKind = Literal[
    "keyword", "function", "metric", "attribute", "value", "entity", "site", "option", "insight",
    "unit", "scheduler", "snippet",
]  # fmt: skip


class Text(BaseModel):
    """A text of insights, which may be incomplete."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: str = Field(max_length=MAX_TEXT, description="Statements of the insight language.")


class Formatted(BaseModel):
    """A text in its canonical form; a text with syntax errors is unchanged."""

    ok: bool = Field(description="Whether the text has no syntax errors.")
    queries: str = Field(description="The text in its canonical form, with its comments.")
    problems: list[Diagnostic] = Field(description="The syntax errors.")


class CaretPosition(Text):
    """A text, and the position of the caret in it."""

    line: int = Field(ge=1, description="The line of the caret, from 1.")
    column: int = Field(ge=1, description="The column before which the caret is, from 1.")


class Completion(BaseModel):
    """A text that can be inserted at the caret."""

    label: str = Field(description="The text to show.")
    kind: ItemKind = Field(description="The kind of the word.")
    insert: str = Field(description="The text to insert.")
    detail: str = Field("", description="A short description.")


class Completions(BaseModel):
    """The completions at a caret; an item replaces the ``length`` characters at the position."""

    line: int = Field(description="The line of the replaced characters, from 1.")
    column: int = Field(description="The column of the first replaced character, from 1.")
    length: int = Field(description="The number of replaced characters.")
    items: list[Completion] = Field(description="The completions, the best first.")
    truncated: bool = Field(False, description="Whether there are more completions.")


class PreviewRequest(Text):
    """A text whose results are computed once, without deploying it."""

    minutes: float = Field(
        10, gt=0, le=MAX_PREVIEW_MINUTES, strict=False, description="The span of the results."
    )
    insight: str | None = Field(None, description="The only insight to compute; null: all.")
    limit: int = Field(
        2000, ge=1, le=MAX_PREVIEW_RESULTS, description="The maximum number of results."
    )


class Preview(BaseModel):
    """The results that a deployment of a text would have had in a span of the past."""

    model_config = ConfigDict(populate_by_name=True)

    ok: bool = Field(description="Whether the text has no errors.")
    problems: list[Diagnostic] = Field(description="The errors and warnings of the text.")
    start: int | None = Field(
        default=None,
        validation_alias="from",
        serialization_alias="from",
        description="Results are later than this time (ms); null: none.",
    )
    end: int | None = Field(
        default=None,
        validation_alias="to",
        serialization_alias="to",
        description="The last time (ms) with complete points; null: none.",
    )
    insights: list[str] = Field(default=[], description="The computed insights.")
    results: list[Result] = Field(
        default=[], description="The latest results in the order of time."
    )
    truncated: bool = Field(
        default=False, description="Whether there are earlier results in the span."
    )
    missing_sites: list[str] = Field(default=[], description="The sites whose points are missing.")
    worker: str | None = Field(default=None, description="The worker that computed the results.")
    took_ms: int = Field(default=0, description="The duration (ms) of the computation.")
    units: dict[str, str | None] = Field(
        default={}, description="The unit of the values of each insight; null: none, or unknown."
    )
    silent: dict[str, str] = Field(
        default={}, description="The reason for each insight that has no value."
    )
    windows: dict[str, WindowCoverage] = Field(
        default={}, description="The windows of latest values that their points do not cover yet."
    )
