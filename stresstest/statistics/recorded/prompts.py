"""Which recorded outputs answer one prompt, as far as their texts and traces tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stresstest.statistics.recorded.columns import ABSENT
from stresstest.statistics.sample import COPY_TOKENS


def one_name_each(
    names: Sequence[int],
    digests: Sequence[int],
    requests: Sequence[int],
    onsets: Sequence[int],
    lengths: Sequence[int],
) -> Iterator[int]:
    """The name of each output's prompt: that of the earliest prompt with a long text in common, or with the
    same request of a trace.

    Columns of the outputs. digests, requests: 0 where there is none. onsets, lengths: in words.
    """
    joined: dict[int, int] = {}
    by_text: dict[int, int] = {}
    by_request: dict[int, int] = {}

    def first(name: int) -> int:
        while (earlier := joined.get(name, name)) != name:
            name = joined[name] = joined.get(earlier, earlier)  # shorter each time: chains may be long
        return name

    def join(known: dict[int, int], key: int, name: int) -> None:
        one, other = first(known.setdefault(key, name)), first(name)
        if one != other:
            joined[other] = one

    for name, digest, request, onset, length in zip(names, digests, requests, onsets, lengths, strict=True):
        if digest and (length if onset == ABSENT else onset) >= COPY_TOKENS:
            join(by_text, digest, name)
        if request:
            join(by_request, request, name)
    return (first(name) for name in names)
