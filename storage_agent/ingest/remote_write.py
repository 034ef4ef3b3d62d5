"""Prometheus remote write, 1.0 and 2.0: from messages to points."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Any, Literal, Protocol

from google.protobuf.message import DecodeError

from mistbow.errors import InvalidRequestError
from storage_agent.ingest.collecting import Collector, Fault
from storage_agent.ingest.protocol import remote_v1_pb2, remote_v2_pb2
from storage_agent.ingest.unpacking import unsupported

Version = Literal["1.0", "2.0"]

TAKEN = (
    "Content-Type: application/x-protobuf, with proto=prometheus.WriteRequest (the default) "
    "or proto=io.prometheus.write.v2.Request"
)
_PROTOS: Mapping[object, Version] = {
    None: "1.0",
    "prometheus.WriteRequest": "1.0",
    "io.prometheus.write.v2.Request": "2.0",
}
_STALE = bytes.fromhex("7ff0000000000002")
"""The one NaN by which Prometheus says that a series has ended."""


class _Sample(Protocol):
    value: float
    timestamp: int


@dataclass(frozen=True, slots=True)
class Naming:
    """Which label is the entity, and the entity of points without that label."""

    label: str
    default: str


@dataclass(slots=True)
class Beside:
    """How many of what is no point came: it is taken, and not kept."""

    stale: int = 0
    nan: int = 0
    exemplars: int = 0


@dataclass(frozen=True, slots=True)
class _Series:
    """One series of a body, in the same form for both versions; ``fault``: it cannot be read."""

    labels: Sequence[tuple[str, str]]
    samples: Sequence[_Sample]
    histograms: int
    exemplars: int
    desc: str | None = None
    units: str | None = None
    fault: str | None = None


def version_of(content_type: str | None) -> Version:
    """Return the version that a body is of; raises ``UnsupportedError`` for none of them."""
    header = Message()
    header["content-type"] = content_type or ""
    version = _PROTOS.get(header.get_param("proto"))
    if header.get_content_type() != "application/x-protobuf" or version is None:
        raise unsupported("Content-Type", content_type, TAKEN)
    return version


def collect(body: bytes, version: Version, naming: Naming, into: Collector) -> Beside:
    """Gather the points of an unpacked body; raises ``InvalidRequestError`` if it is none."""
    try:
        found = _read_v1(body) if version == "1.0" else _read_v2(body)
    except DecodeError as error:
        raise InvalidRequestError(
            f"the body is not a message of remote write {version}: {error}", hint=f"Send {TAKEN}."
        ) from error
    beside = Beside()
    for number, series in enumerate(found):
        into.look_at(1)
        _collect_series(f"timeseries[{number}]", series, naming, into, beside)
    return beside


def _collect_series(
    where: str, series: _Series, naming: Naming, into: Collector, beside: Beside
) -> None:
    beside.exemplars += series.exemplars
    if series.histograms:
        fault = Fault("histogram", "native histograms are not stored")
        into.refuse(fault, f"{where}.histograms", _named(series.labels), series.histograms)
    if not series.samples:
        return
    try:
        described = into.describe(_fields(series, naming))
    except ValueError as error:
        fault = Fault("series", str(error))
        into.refuse(fault, where, _named(series.labels), len(series.samples))
        return
    for number, sample in enumerate(series.samples):
        value = sample.value
        # Only a NaN differs from itself. A summary without observations is one, and no fault.
        if value != value:
            if struct.pack(">d", value) == _STALE:
                beside.stale += 1
            else:
                beside.nan += 1
        elif refused := into.add(described, value, sample.timestamp):
            into.refuse(refused, f"{where}.samples[{number}]", _named(series.labels))


def _fields(series: _Series, naming: Naming) -> dict[str, Any]:
    """Return what is said of a series as fields of a /put; raises ``ValueError``."""
    if series.fault is not None:
        raise ValueError(series.fault)
    # An empty label is the same as none, for Prometheus.
    labels = {name: value for name, value in series.labels if value}
    if len({name for name, _ in series.labels}) < len(series.labels):
        raise ValueError("a label is there twice")
    metric = labels.pop("__name__", None)
    if metric is None:
        raise ValueError("the label __name__ is missing")
    return {
        "metricID": metric,
        "entityID": labels.pop(naming.label, naming.default),
        "group": labels.pop("job", None),
        "desc": series.desc,
        "units": series.units,
        "labels": labels or None,
    }


def _named(labels: Sequence[tuple[str, str]]) -> str:
    """Return a series as Prometheus writes it: ``up{instance="a"}``."""
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
    return (_of_symbols(series, symbols) for series in message.timeseries)


def _of_symbols(series: remote_v2_pb2.TimeSeries, symbols: Sequence[str]) -> _Series:
    refs = list(series.labels_refs)
    described = (series.metadata.help_ref, series.metadata.unit_ref)
    fault = None
    if len(refs) % 2:
        fault = "labels_refs are not pairs of a name and a value"
    elif any(ref >= len(symbols) for ref in (*refs, *filter(None, described))):
        fault = "a reference is beyond the symbols"
    if fault is not None:
        return _Series(
            (), series.samples, len(series.histograms), len(series.exemplars), fault=fault
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
