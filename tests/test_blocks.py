"""Every line comes out once, with its exact bytes, number and offset, whatever the file is like."""

from __future__ import annotations

import errno
import gzip
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import blocks
from parsers.blocks import (
    BlockReader,
    CutLine,
    UnreadableFileError,
    detect_compression,
    read_head,
    read_range,
)
from parsers.formats import HEAD_BYTES

PACK: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    "gz": gzip.compress,
    "zst": zstandard.compress,
}

Line = tuple[int, int, bytes]
"""(0-based line in the chunk, byte offset in the file, bytes without the newline)."""


def lines_of(reader: BlockReader) -> list[Line]:
    out: list[Line] = []
    for block in reader:
        assert block.first_line == len(out)
        assert bytes(block.data).count(b"\n") in (len(block.starts), len(block.starts) - 1)
        for i, start in enumerate(block.starts.tolist()):
            out.append((block.first_line + i, block.byte_offset + start, block.line(i)))
    assert reader.n_lines == len(out)
    return out


def naive(data: bytes) -> list[Line]:
    out, offset = [], 0
    for number, line in enumerate(data.split(b"\n")):
        if line or offset < len(data):
            out.append((number, offset, line))
        offset += len(line) + 1
    return out


def written(folder: Path, data: bytes, name: str = "log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


DIRTY = {
    "invalid UTF-8": b"ok\n\xff\xfe\xc3(\xed\xa0\x80\nok\n",
    "NUL bytes": b"\0\0a\0\nb\0\n\0",
    "CRLF": b"one\r\ntwo\r\n",
    "bare CR frames": b" 1%\r 2%\r 3%\nnext\n",
    "quotes and separators": b'a|"b|\nc"|d\n',
    "empty lines": b"\n\n\na\n\n",
    "no newline at the end": b"a\nbc",
    "record cut in half": b"iteration 1 | loss: 2.0\n itera",
    "one newline": b"\n",
    "empty": b"",
    "other line separators": "a\u2028b\x85c\x0bd\x0ce\x1cf\n".encode(),
    "byte order mark": b"\xef\xbb\xbfa\n",
}


@pytest.mark.parametrize("data", DIRTY.values(), ids=DIRTY.keys())
@pytest.mark.parametrize("block_bytes", [1, 2, 5, 4096])
@pytest.mark.parametrize("compression", [None, "gz", "zst"])
def test_dirty_bytes_keep_lines_and_offsets(
    tmp_path: Path, data: bytes, block_bytes: int, compression: str | None
) -> None:
    pack = PACK[compression]
    path = written(tmp_path, pack(data))
    assert detect_compression(path) == compression
    reader = BlockReader(path, compression=compression, block_bytes=block_bytes)
    assert lines_of(reader) == naive(data)
    assert reader.n_bytes == reader.next_byte == len(data)
    assert reader.truncated_reason is None
    assert reader.cut_lines == []
    is_whole = not data or data.endswith(b"\n")
    assert reader.tail_offset == (None if is_whole else data.rfind(b"\n") + 1)


def test_ten_megabyte_line_is_one_line(tmp_path: Path) -> None:
    long = b"x" * 10_000_000
    reader = BlockReader(written(tmp_path, b"a\n" + long + b"\nb\n"))
    assert lines_of(reader) == [(0, 0, b"a"), (1, 2, long), (2, 10_000_003, b"b")]
    assert reader.cut_lines == []


@pytest.mark.parametrize("n_bytes", [7, 8, 9, 10, 30])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nzz\n\n"])
@pytest.mark.parametrize("block_bytes", [1, 3, 64])
def test_line_above_the_limit_is_cut_and_reported(
    tmp_path: Path, n_bytes: int, end: bytes, block_bytes: int
) -> None:
    data = b"a\n" + b"x" * n_bytes + end
    path = written(tmp_path, data)
    reader = BlockReader(path, block_bytes=block_bytes, max_line_bytes=8)
    assert lines_of(reader) == [(i, at, line[:8]) for i, at, line in naive(data)]
    assert reader.cut_lines == ([CutLine(1, 2, n_bytes)] if n_bytes > 8 else [])
    assert reader.tail_offset == (None if end else 2)
    assert reader.next_byte == len(data)


def test_buffer_shrinks_again_after_a_long_line(tmp_path: Path) -> None:
    path = written(tmp_path, b"x" * 5000 + b"\n" + b"short\n" * 3000)
    sizes = [len(block.data) for block in BlockReader(path, block_bytes=1000)]
    assert max(sizes) > 5000
    assert all(size <= 1000 for size in sizes[2:])


# Chunks.


@given(
    data=st.lists(st.sampled_from([b"\n", b"\r", b"\0", b"a", b"\xff", b"bcd", b"x" * 9])).map(
        b"".join
    ),
    block_bytes=st.integers(1, 40),
    max_line_bytes=st.integers(1, 30),
    cuts=st.lists(st.integers(0, 120)),
    has_records=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_chunks_give_the_lines_of_the_whole(
    *,
    tmp_path: Path,
    data: bytes,
    block_bytes: int,
    max_line_bytes: int,
    cuts: list[int],
    has_records: bool,
) -> None:
    path = written(tmp_path, data)
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    out: list[Line] = []
    cut_lines: list[CutLine] = []
    expected_next = 0
    for start, end in pairwise(borders):
        reader = BlockReader(
            path, start, end, block_bytes=block_bytes, max_line_bytes=max_line_bytes,
            is_record_start=(lambda line: line.startswith(b"a")) if has_records else None,
        )  # fmt: skip
        lines = lines_of(reader)
        assert reader.truncated_reason is None
        if lines:
            assert reader.first_byte == lines[0][1] == expected_next
            assert start <= lines[0][1] < end
            if has_records and start:
                assert lines[0][2].startswith(b"a")
            expected_next = reader.next_byte
        cut_lines += [
            CutLine(c.line + len(out), c.byte_offset, c.n_bytes) for c in reader.cut_lines
        ]
        out += [(len(out) + i, at, line) for i, (_, at, line) in enumerate(lines)]
    whole = naive(data)
    assert out == [(i, at, line[:max_line_bytes]) for i, at, line in whole]
    assert cut_lines == [CutLine(i, at, len(b)) for i, at, b in whole if len(b) > max_line_bytes]


@given(data=st.binary(max_size=300), block_bytes=st.integers(1, 50), start=st.integers(0, 300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_from_any_start(
    tmp_path: Path, data: bytes, block_bytes: int, start: int
) -> None:
    lines = [line for line in naive(data) if line[1] >= start]
    expected = [(i, at, line) for i, (_, at, line) in enumerate(lines)]
    for compression, packed in ((None, data), ("gz", gzip.compress(data))):
        path = written(tmp_path, packed)
        reader = BlockReader(path, start, compression=compression, block_bytes=block_bytes)
        assert lines_of(reader) == expected


def test_records_of_several_lines_stay_in_the_chunk_in_which_they_begin(tmp_path: Path) -> None:
    path = written(tmp_path, b"#1\nmore\n#2\nmore\nmore\n#3\n")

    def lines(start: int, end: int) -> list[bytes]:
        reader = BlockReader(path, start, end, is_record_start=lambda line: line[:1] == b"#")
        return [line for _, _, line in lines_of(reader)]

    assert lines(0, 9) == [b"#1", b"more", b"#2", b"more", b"more"]
    assert lines(9, 12) == []
    assert lines(9, 24) == [b"#3"]


def test_file_that_grows_gives_no_record_that_begins_behind_the_planned_end(tmp_path: Path) -> None:
    path = written(tmp_path, b"a\nhalf")
    reader = BlockReader(path, 0, 6, block_bytes=4)
    rest = iter(reader)
    first = bytes(next(rest).data)
    with path.open("ab") as log:
        log.write(b" and whole\nlater\n")
    assert [first, *(bytes(block.data) for block in rest)] == [b"a\n", b"half and whole\n"]
    assert (reader.n_lines, reader.next_byte, reader.tail_offset) == (2, 17, None)


def test_file_that_shrank_says_so(tmp_path: Path) -> None:
    reader = BlockReader(written(tmp_path, b"a\nb\n"), 0, 100)
    assert len(lines_of(reader)) == 2
    assert reader.truncated_reason == "the file now ends before byte 100"


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a plain file gave."""
    counts: list[int] = []
    readinto = blocks._Plain.readinto

    def counted(self: blocks._Plain, view: memoryview) -> int:
        counts.append(readinto(self, view))
        return counts[-1]

    monkeypatch.setattr(blocks._Plain, "readinto", counted)
    return counts


def test_little_is_read_behind_the_end_of_a_chunk(tmp_path: Path, n_read: list[int]) -> None:
    path = written(tmp_path, b"0123456\n" * 500_000)
    assert len(lines_of(BlockReader(path, 0, 1_000_001))) == 125_001
    assert sum(n_read) <= 1_000_001 + 64 * 1024


def test_chunk_inside_an_endless_line_stops_at_its_end(tmp_path: Path, n_read: list[int]) -> None:
    path = written(tmp_path, b"x" * 3_000_000)
    assert lines_of(BlockReader(path, 1000, 2000, block_bytes=4096)) == []
    assert sum(n_read) <= 4096


def test_chunk_without_a_record_stops_at_its_end(tmp_path: Path, n_read: list[int]) -> None:
    path = written(tmp_path, b"#\n" + b"more\n" * 600_000)
    reader = BlockReader(path, 1000, 2000, is_record_start=lambda line: line == b"#")
    assert lines_of(reader) == []
    assert sum(n_read) <= 2 * 64 * 1024


# Compressed files.


MANY = b"".join(b"line %d\n" % i for i in range(20_000))


def frames(compress: Callable[[bytes], bytes], data: bytes, n: int) -> bytes:
    size = len(data) // n + 1
    return b"".join(compress(data[i : i + size]) for i in range(0, len(data), size))


@pytest.mark.parametrize("n", [1, 3, 500])
@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_members_and_frames_are_joined(tmp_path: Path, compression: str, n: int) -> None:
    path = written(tmp_path, frames(PACK[compression], MANY, n))
    reader = BlockReader(path, compression=compression)
    assert lines_of(reader) == naive(MANY)
    assert reader.truncated_reason is None


def test_zst_may_begin_with_a_skippable_frame(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    path = written(tmp_path, skippable + zstandard.compress(b"a\nb\n"))
    assert detect_compression(path) == "zst"
    assert [line for _, _, line in lines_of(BlockReader(path, compression="zst"))] == [b"a", b"b"]


def test_gz_may_end_with_padding(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(b"a\n") + b"\0" * 50_000 + gzip.compress(b"b\n"))
    reader = BlockReader(path, compression="gz")
    assert [line for _, _, line in lines_of(reader)] == [b"a", b"b"]
    assert reader.truncated_reason is None


@pytest.mark.parametrize("compression", ["gz", "zst"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_compressed_file_cut_short_gives_its_readable_lines_and_the_reason(
    tmp_path: Path, compression: str, share: float
) -> None:
    # zstd gives out whole blocks only: of one frame of this size there would be nothing
    packed = frames(PACK[compression], MANY, 20)
    path = written(tmp_path, packed[: int(len(packed) * share)])
    reader = BlockReader(path, compression=compression)
    out = lines_of(reader)
    assert reader.truncated_reason == f"the {compression} data ends too early"
    whole = naive(MANY)
    assert out[:-1] == whole[: max(len(out) - 1, 0)]
    if out:
        assert whole[len(out) - 1][2].startswith(out[-1][2])
    assert len(out) >= (share - 0.06) * len(whole)


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_rubbish_behind_compressed_data_is_reported(tmp_path: Path, compression: str) -> None:
    packed = PACK[compression](b"a\nb\n") + b"rubbish" * 3
    reader = BlockReader(written(tmp_path, packed), compression=compression)
    assert [line for _, _, line in lines_of(reader)] == [b"a", b"b"]
    assert reader.truncated_reason is not None
    assert reader.truncated_reason.startswith(f"the {compression} data is damaged: ")


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_decompression_bomb_stays_small(tmp_path: Path, compression: str) -> None:
    n_bytes = 400 * 1024 * 1024
    path = tmp_path / "bomb"
    # members and frames of zeros: a long line in little more than its headers
    path.write_bytes(PACK[compression](bytes(100 * 1024 * 1024)) * 4)
    check = f"(0, 0, {n_bytes}) == (c := reader.cut_lines[0], c.line, c.byte_offset, c.n_bytes)[1:]"
    assert growth_mb(path, compression, check) < 250


def growth_mb(path: Path, compression: str | None, check: str = "True") -> int:
    """How much the memory of a fresh process grows while it reads the file."""
    code = f"""
import resource
from pathlib import Path
from parsers.blocks import BlockReader
reader = BlockReader(Path({str(path)!r}), compression={compression!r})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in reader:
    pass
assert {check}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


# Files that cannot be read.


def refused(path: Path) -> str:
    with pytest.raises(UnreadableFileError) as caught:
        list(BlockReader(path))
    for read in (detect_compression, read_head):
        with pytest.raises(UnreadableFileError):
            read(path)
    # the error must come back whole from a worker process
    message = str(pickle.loads(pickle.dumps(caught.value)))  # noqa: S301 - our own bytes
    assert message.startswith(f"cannot read {path}: ")
    return message


def test_folder_is_refused(tmp_path: Path) -> None:
    assert "it is a folder" in refused(tmp_path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert "it does not exist" in refused(tmp_path / "none")


def test_link_loop_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "symbolic links form a loop" in refused(tmp_path / "a")


def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "device, pipe or socket" in refused(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, b"a\n")
    path.chmod(0)
    assert "no permission" in refused(path)


def test_missing_permission_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = written(tmp_path, b"a\n")
    monkeypatch.setattr(os, "open", denied)
    assert "no permission to read it" in refused(path)


def test_read_error_in_the_middle_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    path = written(tmp_path, b"a\n")
    monkeypatch.setattr(blocks._Plain, "readinto", failing)
    with pytest.raises(UnreadableFileError, match=f"cannot read {path}: the disk"):
        list(BlockReader(path))


def test_refused_files_leave_no_descriptor_open(tmp_path: Path) -> None:
    n_open = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        refused(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == n_open


# Heads and ranges.


@pytest.mark.parametrize("compression", [None, "gz", "zst"])
def test_head_holds_whole_lines(tmp_path: Path, compression: str | None) -> None:
    pack = PACK[compression]
    head = read_head(written(tmp_path, pack(MANY)), compression)
    assert HEAD_BYTES - 20 < len(head) <= HEAD_BYTES
    assert MANY.startswith(head)
    assert head.endswith(b"\n")


def test_head_without_newline_is_given_as_it_is(tmp_path: Path) -> None:
    assert read_head(written(tmp_path, b"x" * 100), n_bytes=10) == b"x" * 10
    assert read_head(written(tmp_path, b"a\nhalf")) == b"a\nhalf"
    assert read_head(written(tmp_path, b"")) == b""


@given(start=st.integers(0, 300_000), n_bytes=st.integers(0, 300_000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_range_is_found(tmp_path: Path, start: int, n_bytes: int) -> None:
    for compression, packed in ((None, MANY), ("zst", zstandard.compress(MANY))):
        path = written(tmp_path, packed)
        assert read_range(path, compression, start, n_bytes) == MANY[start : start + n_bytes]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as out:
        for _ in range(40):
            out.write(b"some words of a line\n" * 100_000)
        out.write(b"x" * 12_000_000)
        out.write(b"\n" * 9_000_000)
    assert growth_mb(path, None) < 250


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(st.sampled_from([b"a", b"bc", b"\n"]), max_size=30).map(b"".join),
    block_bytes=st.integers(1, 12),
)
def test_pieces_number_the_line_that_every_byte_stands_in(
    tmp_path: Path, data: bytes, block_bytes: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    reader = BlockReader(path, block_bytes=block_bytes, max_line_bytes=2, in_pieces=True)
    seen = b""
    for block in reader:
        assert block.byte_offset == len(seen)
        assert len(block.data) <= block_bytes
        for index, start in enumerate(block.starts.tolist()):
            assert block.first_line + index == data[: block.byte_offset + start].count(b"\n")
        seen += bytes(block.data)
    assert seen == data
    assert reader.n_lines == len(data.splitlines())
    assert reader.cut_lines == []
    assert reader.next_byte == len(data)
