"""The decoder of bodies gives back what was compressed, in bounded pieces, however the network cut it."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.http_limits import BodyDecoder, BodyDecodingError


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "identity": bytes,
    "": bytes,
}


@given(
    st.sampled_from(sorted(COMPRESSORS)), st.lists(st.binary(max_size=4000), max_size=4), st.integers(1, 64)
)
def test_what_was_compressed_comes_back(encoding: str, parts: list[bytes], size: int) -> None:
    """Every encoding, cut into pieces of any size."""
    data = b"".join(parts) * 50
    sent = COMPRESSORS[encoding](data)
    decoder = BodyDecoder(encoding)
    reads = [sent[at : at + size * 37] for at in range(0, len(sent), size * 37)]
    assert b"".join(piece for read in reads for piece in decoder.decode(read)) == data


def test_gzip_members_in_a_row_are_one_body() -> None:
    """gzip files may be concatenated."""
    sent = gzip.compress(b"Uno ") + gzip.compress(b"due")
    assert b"".join(BodyDecoder("gzip").decode(sent)) == b"Uno due"


def test_pieces_are_bounded() -> None:
    """Whatever a few bytes expand to, one piece is at most 1 MiB."""
    pieces = [len(piece) for piece in BodyDecoder("gzip").decode(gzip.compress(b"\0" * (8 << 20)))]
    assert sum(pieces) == 8 << 20
    assert max(pieces) <= 1 << 20


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["gzip", "deflate"]))
def test_damaged_bodies_are_an_error_or_bytes(data: bytes, encoding: str) -> None:
    """Never another exception, and never an endless loop."""
    with contextlib.suppress(BodyDecodingError):
        assert sum(len(piece) for piece in BodyDecoder(encoding).decode(data)) <= 1032 * len(data)


def test_other_encodings_are_refused() -> None:
    """Only what needs no further library is decoded."""
    with pytest.raises(BodyDecodingError, match="was not requested"):
        BodyDecoder("br")
