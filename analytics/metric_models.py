"""The wire models of the search for metrics, series and attributes."""

from pydantic import BaseModel, Field


class FoundMetric(BaseModel):
    """A metric with its metadata, and the entities and sites that have points of it."""

    metric: str = Field(description="The id of the metric.")
    name: str | None = Field(description="The name for people; null: unknown.")
    units: str | None = Field(description="The units; null: unknown.")
    desc: str | None = Field(description="The description; null: unknown.")
    group: str | None = Field(description="The group of metrics; null: unknown.")
    min: float | None = Field(description="The least possible value; null: unknown.")
    max: float | None = Field(description="The greatest possible value; null: unknown.")
    entity_types: list[str] = Field(description="The types of the entities.")
    entities: list[str] = Field(description="The first entities with points of the metric.")
    entity_count: int = Field(description="The number of entities.")
    sites: list[str] = Field(description="The sites with points of the metric.")
    labels: dict[str, list[str]] = Field(
        description="The attributes of recent points, each with some of its values."
    )


class Metrics(BaseModel):
    """A page of metrics."""

    metrics: list[FoundMetric] = Field(description="The metrics, by id.")
    next: str | None = Field(description="The cursor of the next page; null: the last page.")
    total: int = Field(description="The number of metrics on all pages.")
    missing_sites: list[str] = Field(description="The nodes or sites that did not answer.")
    attributes: list[str] = Field(
        default=[],
        description="The names of the attributes of recent points, by name, if a search by words "
        "or by an attribute found no metric. At most 100; tokens with an entity prefix get none.",
    )


class LatestPoint(BaseModel):
    """The latest point of a series; ``value`` is null if JSON cannot represent it."""

    ts: int = Field(description="The time, in ms since the epoch.")
    value: float | None = Field(description="The value; null: not a finite number.")


class FoundSeries(BaseModel):
    """A series of a metric: an entity at a site, and its latest point."""

    entity: str = Field(description="The entity.")
    entity_type: str | None = Field(description="The type of the entity; null: unknown.")
    site: str = Field(description="The site that stores the points.")
    node: str = Field(description="The node that stores the points.")
    latest: LatestPoint | None = Field(description="The latest point; null: no point.")


class SeriesPage(BaseModel):
    """A page of the series of a metric."""

    series: list[FoundSeries] = Field(description="The series, by site and entity.")
    next: str | None = Field(description="The cursor of the next page; null: the last page.")
    total: int = Field(description="The number of series on all pages.")


class Attribute(BaseModel):
    """An attribute of points, and the values that recent points have."""

    name: str = Field(description="The name of the attribute, for BY and WHEN.")
    values: list[str] = Field(description="Some of the values, in order.")
    more: bool = Field(description="Whether there are more values.")


class Attributes(BaseModel):
    """The attributes of recent points."""

    attributes: list[Attribute] = Field(description="The attributes, by name.")
