"""The parsing of points in Prometheus remote write 1.0 and 2.0."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Any, Literal, Protocol

from google.protobuf.message import DecodeError

from mistbow.errors import InvalidRequestError
from storage_agent.ingest.decompression import unsupported_header
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.message_parts import TooManyFieldsError, first_field, split_message
from storage_agent.ingest.point_batch import MAX_SERIES_LENGTH, PointBatch, Rejection
from storage_agent.ingest.protocol import remote_v1_pb2, remote_v2_pb2

Version = Literal["1.0", "2.0"]

_SUPPORTED = (
    "Content-Type: application/x-protobuf, with proto=prometheus.WriteRequest (the default) "
    "or proto=io.prometheus.write.v2.Request"
)
_FIELDS_OF_OTHER_VERSION: Mapping[Version, Sequence[int]] = {"1.0": (4, 5), "2.0": (1, 3)}
"""Fields that the other version has and this one never has: without a check, they are skipped."""

_MAX_LABELS = 1000
"""The maximum number of labels, also of empty ones, that are read; fewer are stored."""

_MAX_SYMBOLS_OF_A_SERIES = 4
"""The maximum number of symbols for each series that a body may have: series share most of them."""

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
    if first_field(body) in _FIELDS_OF_OTHER_VERSION[version]:
        raise InvalidRequestError(
            f"the body is not a message of remote write {version}, but of the other version",
            hint=f"Send {_SUPPORTED}.",
        )
    exemplars = 0
    try:
        for number, series in enumerate(_read(body, version, batch)):
            batch.count_parts(1)
            exemplars += series.exemplars
            _add_series(f"timeseries[{number}]", series, entity, batch)
    except TooManyFieldsError as error:
        raise batch.too_large() from error
    except DecodeError as error:
        raise InvalidRequestError(
            f"the body is not a message of remote write {version}: {error}",
            hint=f"Send {_SUPPORTED}.",
        ) from error
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
    """Return a series in Prometheus' notation, shortened: ``up{instance="a"}``."""
    metric = next((value for name, value in labels if name == "__name__"), "")
    text = metric[:MAX_SERIES_LENGTH] + "{"
    separator = ""
    for name, value in labels:
        if name != "__name__":
            text += f'{separator}{name[:MAX_SERIES_LENGTH]}="{value[:MAX_SERIES_LENGTH]}"'
            separator = ","
        if len(text) > MAX_SERIES_LENGTH:
            return text
    return text + "}"


def _read(body: bytes, version: Version, batch: PointBatch) -> Iterator[_Series]:
    """Yield the series of a body, which is parsed in parts."""
    request = remote_v1_pb2.Request if version == "1.0" else remote_v2_pb2.Request
    number = request.DESCRIPTOR.fields_by_name["timeseries"].number
    max_fields = batch.max_points + _MAX_LABELS
    if version == "1.0":
        return _read_v1(split_message(body, number, max_fields))
    return _read_v2(split_message(body, number, max_fields), max_fields)


def _read_v1(parts: Iterator[bytes]) -> Iterator[_Series]:
    for part in parts:
        for series in remote_v1_pb2.Request.FromString(part).timeseries:
            labels = series.labels
            yield _Series(
                [(label.name, label.value) for label in labels[:_MAX_LABELS]],
                series.samples,
                len(series.histograms),
                len(series.exemplars),
                problem=_too_many(len(labels)),
            )


def _read_v2(parts: Iterator[bytes], max_series: int) -> Iterator[_Series]:
    symbols: list[str] = []
    read: list[bytes] = []
    count = 0
    for part in parts:
        read.append(part)
        request = remote_v2_pb2.Request.FromString(part)
        symbols += request.symbols
        count += len(request.timeseries)
        if count > max_series or len(symbols) > _MAX_SYMBOLS_OF_A_SERIES * max_series:
            raise TooManyFieldsError
    for part in read:
        for series in remote_v2_pb2.Request.FromString(part).timeseries:
            yield _resolve_symbols(series, symbols)


def _too_many(labels: int) -> str | None:
    return f"the series has more than {_MAX_LABELS} labels" if labels > _MAX_LABELS else None


def _resolve_symbols(series: remote_v2_pb2.TimeSeries, symbols: Sequence[str]) -> _Series:
    refs = series.labels_refs
    described = (series.metadata.help_ref, series.metadata.unit_ref)
    problem = _too_many(len(refs) // 2) or _problem(refs, described, len(symbols))
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


def _problem(refs: Sequence[int], described: Sequence[int], symbols: int) -> str | None:
    """Return the error in the references of a series to ``symbols`` symbols; None: no error."""
    if len(refs) % 2:
        return "labels_refs: the number of references is odd, but must be even"
    if any(ref >= symbols for ref in (*refs, *filter(None, described))):
        return "a reference exceeds the number of symbols"
    return None
