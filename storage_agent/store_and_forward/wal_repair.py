"""Reads and repairs a damaged write-ahead log, which SQLite reads only up to the damage.

SQLite replays a log up to the first frame whose checksum is wrong. That is right after a power cut,
where only the last transaction can be incomplete. After a damaged byte, all later transactions are
intact, but lost. The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_MX_FRAME = struct.Struct("=16xI")


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame of the log: a page, its number, and the size of the file after a commit (or 0)."""

    number: int
    size: int
    salts: tuple[int, int]
    page: bytes


def count_lost_commits(log: bytes, index: bytes) -> int:
    """Return the number of commits in a log that SQLite ignored.

    ``index``: the content of the file ``-shm`` after SQLite has read the log. Frames of earlier
    logs, which the log has not overwritten yet, are not counted.
    """
    if len(log) < _HEADER.size or len(index) < _MX_FRAME.size:
        return 0
    [replayed] = _MX_FRAME.unpack_from(index)
    return sum(frame.size != 0 for frame in _own_frames(log)[replayed:])


def repair(log: bytes, pages: int) -> bytes:
    """Return a log with the frames of a damaged log, and with checksums that SQLite accepts.

    ``pages``: the number of pages in the database. A frame whose page number is impossible is
    omitted. A damaged page stays damaged, unless a later frame has the page too.
    """
    frames = _own_frames(log)
    salts = _salts(frames)
    version, page_size = 3_007_000, len(frames[0].page) if frames else 4096
    most = pages + len(frames)
    first = struct.pack(">6I", _MAGIC, version, page_size, 0, *salts)
    sums = _checksum(first, (0, 0))
    repaired = [first, struct.pack(">2I", *sums)]
    for frame in frames:
        if 0 < frame.number <= most:
            head = struct.pack(">2I", frame.number, frame.size if frame.size <= most else 0)
            sums = _checksum(head + frame.page, sums)
            repaired += [head, struct.pack(">4I", *salts, *sums), frame.page]
    return b"".join(repaired)


def _own_frames(log: bytes) -> list[_Frame]:
    """Return the frames up to the last one of the present log; later ones are older."""
    frames = list(_frames(log))
    salts = _salts(frames)
    last = max((at for at, frame in enumerate(frames) if frame.salts == salts), default=-1)
    return frames[: last + 1]


def _frames(log: bytes) -> Iterator[_Frame]:
    page_size = _HEADER.unpack_from(log)[2]
    if page_size not in {2**power for power in range(9, 17)}:
        page_size = 4096  # the header itself is damaged
    step = _FRAME.size + page_size
    for start in range(_HEADER.size, len(log) - step + 1, step):
        number, size, *salts, _, _ = _FRAME.unpack_from(log, start)
        page = log[start + _FRAME.size : start + step]
        yield _Frame(number, size, (salts[0], salts[1]), page)


def _salts(frames: list[_Frame]) -> tuple[int, int]:
    """Return the salts of the present log, which its first frames have; one may be damaged."""
    first = [frame.salts for frame in frames[:3]]
    return max(first, key=first.count, default=(0, 0))


def _checksum(data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """Return the checksum of data that follows data with the checksum ``sums``."""
    first, second = sums
    words = struct.unpack(f"<{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
