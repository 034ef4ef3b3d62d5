"""The parsing of points in Prometheus remote write 1.0 and 2.0."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Any, Literal, Protocol

from google.protobuf.message import DecodeError

from mistbow.errors import InvalidRequestError
from storage_agent.ingest.decompression import unsupported_header
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.point_batch import PointBatch, Rejection
from storage_agent.ingest.protocol import remote_v1_pb2, remote_v2_pb2

Version = Literal["1.0", "2.0"]

_SUPPORTED = (
    "Content-Type: application/x-protobuf, with proto=prometheus.WriteRequest (the default) "
    "or proto=io.prometheus.write.v2.Request"
)
_PROTOS: Mapping[object, Version] = {
    None: "1.0",
    "prometheus.WriteRequest": "1.0",
    "io.prometheus.write.v2.Request": "2.0",
}


class _Sample(Protocol):
    value: float
    timestamp: int


@dataclass(frozen=True, slots=True)
class _Series:
    """A series in a body of remote write 1.0 or 2.0.

    ``histograms``, ``exemplars``: the numbers of histograms and exemplars. ``problem``: an error in
    the series, or None.
    """

    labels: Sequence[tuple[str, str]]
    samples: Sequence[_Sample]
    histograms: int
    exemplars: int
    desc: str | None = None
    units: str | None = None
    problem: str | None = None


def parse_version(content_type: str | None) -> Version:
    """Return the version of remote write that a Content-Type states.

    Raises ``UnsupportedError`` for an unknown Content-Type.
    """
    header = Message()
    header["content-type"] = content_type or ""
    version = _PROTOS.get(header.get_param("proto"))
    if header.get_content_type() != "application/x-protobuf" or version is None:
        raise unsupported_header("Content-Type", content_type, _SUPPORTED)
    return version


def parse_request(body: bytes, version: Version, entity: EntityLabel, batch: PointBatch) -> int:
    """Add the points of a decompressed body to a batch; return the number of skipped exemplars.

    ``entity``: determines the entity of a series. Raises ``InvalidRequestError`` if the body is not
    a message of remote write.
    """
    try:
        all_series = _read_v1(body) if version == "1.0" else _read_v2(body)
    except DecodeError as error:
        raise InvalidRequestError(
            f"the body is not a message of remote write {version}: {error}",
            hint=f"Send {_SUPPORTED}.",
        ) from error
    exemplars = 0
    for number, series in enumerate(all_series):
        batch.count_parts(1)
        exemplars += series.exemplars
        _add_series(f"timeseries[{number}]", series, entity, batch)
    return exemplars


def _add_series(where: str, series: _Series, entity: EntityLabel, batch: PointBatch) -> None:
    if series.histograms:
        rejection = Rejection("histogram", "native histograms are not stored")
        batch.reject(
            rejection, f"{where}.histograms", _format_series(series.labels), series.histograms
        )
    if not series.samples:
        return
    try:
        described = batch.describe(_fields(series, entity))
    except ValueError as error:
        rejection = Rejection("series", str(error))
        batch.reject(rejection, where, _format_series(series.labels), len(series.samples))
        return
    for number, sample in enumerate(series.samples):
        if rejected := batch.add(described, sample.value, sample.timestamp):
            batch.reject(rejected, f"{where}.samples[{number}]", _format_series(series.labels))


def _fields(series: _Series, entity: EntityLabel) -> dict[str, Any]:
    """Return the fields that describe a series in a /put.

    Raises ``ValueError`` if the series is invalid. ``entity``: determines the entity of the series.
    """
    if series.problem is not None:
        raise ValueError(series.problem)
    # In Prometheus, an empty label is the same as a missing one.
    labels = {name: value for name, value in series.labels if value}
    if len({name for name, _ in series.labels}) < len(series.labels):
        raise ValueError("the series has several labels with the same name")
    metric = labels.pop("__name__", None)
    if metric is None:
        raise ValueError("the series has no label __name__, which names the metric")
    return {
        "metricID": metric,
        "entityID": entity.take(labels),
        "desc": series.desc,
        "units": series.units,
        "labels": labels or None,
    }


def _format_series(labels: Sequence[tuple[str, str]]) -> str:
    """Return a series in Prometheus' notation: ``up{instance="a"}``."""
    pairs = ",".join(f'{name}="{value}"' for name, value in labels if name != "__name__")
    return f"{dict(labels).get('__name__', '')}{{{pairs}}}"


def _read_v1(body: bytes) -> Iterator[_Series]:
    message = remote_v1_pb2.Request.FromString(body)
    return (
        _Series(
            [(label.name, label.value) for label in series.labels],
            series.samples,
            len(series.histograms),
            len(series.exemplars),
        )
        for series in message.timeseries
    )


def _read_v2(body: bytes) -> Iterator[_Series]:
    message = remote_v2_pb2.Request.FromString(body)
    symbols = list(message.symbols)
    return (_resolve_symbols(series, symbols) for series in message.timeseries)


def _resolve_symbols(series: remote_v2_pb2.TimeSeries, symbols: Sequence[str]) -> _Series:
    refs = list(series.labels_refs)
    described = (series.metadata.help_ref, series.metadata.unit_ref)
    problem = None
    if len(refs) % 2:
        problem = "labels_refs: the number of references is odd, but must be even"
    elif any(ref >= len(symbols) for ref in (*refs, *filter(None, described))):
        problem = "a reference exceeds the number of symbols"
    if problem is not None:
        return _Series(
            (), series.samples, len(series.histograms), len(series.exemplars), problem=problem
        )
    texts = [symbols[ref] for ref in refs]
    desc, units = (symbols[ref] if ref else None for ref in described)
    return _Series(
        list(zip(texts[::2], texts[1::2], strict=True)),
        series.samples,
        len(series.histograms),
        len(series.exemplars),
        desc or None,
        units or None,
    )
