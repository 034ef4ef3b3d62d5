"""Labels: an attribute of the latest point of each key, as a text.

The points come by keys that have the attribute, and often more keys than are asked for: of those
that are one key without it, the one with the latest point tells.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.at_points import Held, Moment
from analytics_worker.finishing import Finished
from mistbow.panes.routing import key_of
from mistbow.plan.expressions import Label, Scalar


@dataclass(frozen=True, slots=True)
class Seen:
    """The latest point of a key at a tick, or at the moment of one; ``whole`` has the attribute."""

    tick: int
    whole: str
    ts: int
    value: float


def seen_at_ticks(rows: pa.Table) -> Iterator[Seen]:
    """Yield the latest points that windows (``WINDOWED``) carry."""
    latest = rows["latest"].combine_chunks()
    columns = (pc.struct_field(latest, name).to_pylist() for name in ("ts", "value"))
    places = (rows[name].to_pylist() for name in ("tick", "key"))
    for tick, key, ts, value in zip(*places, *columns, strict=True):
        yield Seen(tick, key, ts, value)


def seen_at_moments(label: Label, held: Held, moments: Sequence[Moment]) -> Iterator[Seen]:
    """Yield the latest points of all whole keys at the moments of the keys that are asked for."""
    wholes: dict[tuple[int, str], list[str]] = defaultdict(list)
    for tick, whole in held.points:
        wholes[tick, _asked(whole, label)].append(whole)
    for moment in moments:
        for whole in wholes.get((moment.tick, moment.key), ()):
            points = held.at(replace(moment, key=whole))
            if points is not None:
                yield Seen(moment.ts, whole, int(points.ts[-1]), float(points.values[-1]))


def labels(label: Label, seen: Iterable[Seen]) -> tuple[pa.Table, Finished]:
    """Return the (tick, key) that a label has a value at, and those, null for none."""
    best: dict[tuple[int, str], Seen] = {}
    # In the order of their texts, for the first of equal ones to stay; what has none comes last.
    for one in sorted(seen, key=lambda one: ((text := _text(one, label)) is None, text or "")):
        place = one.tick, _asked(one.whole, label)
        other = best.get(place)
        if other is None or (one.ts, one.value) > (other.ts, other.value):
            best[place] = one
    rows = pa.table(
        {
            "tick": pa.array([tick for tick, _ in best], pa.int64()),
            "key": pa.array([key for _, key in best], pa.string()),
        }
    )
    texts = [_text(one, label) for one in best.values()]
    return rows, Finished(pa.array(texts, pa.string()))


def _asked(whole: str, label: Label) -> str:
    return key_of(_attributes(whole), label.by)


def _text(one: Seen, label: Label) -> str | None:
    """Return the attribute as a text, numbers and truth values as the language writes them."""
    match _attributes(one.whole)[label.attribute]:
        case float() as number if number.is_integer():
            return str(int(number))
        case bool() as truth:
            return str(truth).lower()
        case None:
            return None
        case other:
            return str(other)


def _attributes(key: str) -> dict[str, Scalar | None]:
    return msgspec.json.decode(key, type=dict[str, Scalar | None])
