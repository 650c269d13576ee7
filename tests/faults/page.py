"""docs/faults.md: every fault played, and what came of it. `python -m tests.faults.page` writes it anew."""

from __future__ import annotations

import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.faults.catalogue import FAULTS, SHAPES, Fault
from tests.faults.playing import LATER, Played, campaign, from_the_start, midway, shaped, staying
from tests.support.deaf_port import deaf_port
from tests.support.fake_campaign import Behaviour, campaign_server

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
ADDRESSES = {
    "nobody listens": "refused the connection. Is vLLM running there?",
    "a host that is not known": "is not known (name lookup failed)",
    "a certificate that is not trusted": "No secure connection to",
    "https:// for a server that speaks http": "No secure connection to",
}
_INTRO = """# Faults on the wire

How `stresstest run` handles each fault of a server, a proxy or the network between them. `make faults`
writes this page: it plays every fault against a scripted server. A test plays them again and fails if the
page differs. Waits were shortened for this. Normally, `run` waits 300 s for a first token and as long for
each later one, and repeats a failed request after 0.5, 1 and 2 s (or as its Retry-After demands), four
tries in all.

The tables follow from these rules. A request that fails before its first token is repeated, visibly, at
most three times. A stream that breaks after its first token is a lost measurement: what arrived is kept
and marked, it counts for the system plane, and the request is not repeated. A wrong key, model or address
does not become right: the campaign ends at once and keeps what it has. A server that no longer names the
root, the version or the context length that it named at the beginning was replaced: the campaign ends at the
next stage, certifies nothing and is not resumed, whatever answers then, as its sample is of two models. A
stage that is interrupted or fails asks too; one that is killed (`kill -9`) cannot. A diagnosis asks again
what was answered in the stage in which that was found, and `cost` leaves the pair out. If every answer was
lost, nothing was measured: that is exit 3 too, and a resume requests all of them again.
"""


@dataclass(frozen=True)
class Plays:
    """Everything played once, by the fault's, shape's or address's name."""

    start: dict[str, Played]
    stays: dict[str, Played]
    midway: dict[str, Played]
    shapes: dict[str, Played]
    addresses: dict[str, Played]


def play_all(folder: Path) -> Plays:
    """Seventy campaigns against scripted servers; about 15 s of a core. folder: an empty one."""

    def fresh(name: str) -> Path:
        path = folder / str(len(list(folder.iterdir())))
        path.mkdir()
        return path

    kinds = {kind: [f for f in FAULTS if f.midway == kind] for kind in ("retried", "lost")}
    return Plays(
        {f.name: from_the_start(f, fresh(f.name)) for f in FAULTS if f.start},
        {f.name: staying(f, fresh(f.name)) for f in FAULTS if f.stays is not None},
        {kind: midway(faults, fresh(kind)) for kind, faults in kinds.items()},
        {shape.name: shaped(shape, fresh(shape.name)) for shape in SHAPES},
        {name: _to_address(name, fresh(name)) for name in ADDRESSES},
    )


def _to_address(name: str, folder: Path) -> Played:
    with _address(name, folder) as url:
        return campaign(folder, url)


@contextmanager
def _address(name: str, folder: Path) -> Iterator[str]:
    """A base URL where this is the matter."""
    if name == "a host that is not known":
        yield "http://gpu.invalid/v1"
        return
    with ExitStack() as stack:
        if name == "nobody listens":
            yield f"http://127.0.0.1:{stack.enter_context(deaf_port())}/v1"
            return
        context = _untrusted(folder) if "certificate" in name else None
        fake, _ = stack.enter_context(campaign_server(Behaviour(), tls=context))
        yield fake.url.replace("http:", "https:")


def _untrusted(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 of an authority that nobody knows."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "both.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context


def page(plays: Plays) -> str:
    """The page as Markdown."""
    parts = [_INTRO, "## From the first request on", ""]
    parts += ["Nothing was measured, and nothing is stored.", ""]
    rows = [(name, played) for name, played in (plays.addresses | plays.start).items()]
    parts += _table(("fault", "exit", "sentence"), [(n, str(p.code), _tls(p.error)) for n, p in rows])
    parts += [
        "",
        "## Once within a campaign",
        "",
        *_midway(plays),
        "",
        "## From the twelfth generation on",
        "",
    ]
    parts += [f"{LATER} generations had been answered; all are kept, and `--resume` goes on from them.", ""]
    parts += _table(
        ("fault", "exit", "kept", "lost", "sentence"), [_stayed(n, p) for n, p in plays.stays.items()]
    )
    parts += ["", "## Servers that send less, or oddly", ""]
    parts += ["Whole campaigns of forty generations, each stream of this kind.", ""]
    parts += _table(
        ("server", "exit", "what is said to be missing"), [_lacks(n, p) for n, p in plays.shapes.items()]
    )
    return "\n".join(parts) + "\n"


def _midway(plays: Plays) -> list[str]:
    """What each became, from the one campaign that met them all."""
    asked, lost = plays.midway["retried"], plays.midway["lost"]
    lines = [
        f"Two campaigns of {len(asked.generations)} generations, each met by one fault of a kind after "
        f"another. Both ended with exit {asked.code} and a certified threshold.",
        "",
    ]
    rows: list[tuple[str, ...]] = []
    for fault in FAULTS:
        if fault.midway == "retried":
            rows.append((fault.name, "asked again", told(fault, asked.retries)))
        elif fault.midway == "lost":
            rows.append((fault.name, "lost, kept", told(fault, lost.losses)))
    return [*lines, *_table(("fault", "generation", "sentence"), rows)]


def told(fault: Fault, sentences: tuple[str, ...] | list[str]) -> str:
    """The sentence that is this fault's; "" when there is none."""
    return next((s for s in sorted(sentences) if fault.said in s), "")


def _stayed(name: str, played: Played) -> tuple[str, ...]:
    said = played.error or played.document["threshold"]["lacking"]
    return name, str(played.code), str(len(played.generations)), str(len(played.lost)), said


def _lacks(name: str, played: Played) -> tuple[str, ...]:
    said = [gap for gap in played.missing if not gap.startswith("GPU readings")]
    if played.code:
        said.append(f"no threshold: {played.document['threshold']['lacking']}")
    return name, str(played.code), "; ".join(said) or "nothing: the same result as from a plain vLLM"


def _tls(sentence: str) -> str:
    """Without OpenSSL's own words, which differ by its version."""
    head, found, _ = sentence.partition("https://gpu-7:8000/v1: ")
    return f"{head}{found.strip()} …" if found else sentence


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def main() -> None:
    """Play everything; write the page, or print it with --print."""
    with tempfile.TemporaryDirectory() as folder:
        text = page(play_all(Path(folder)))
    if "--print" in sys.argv:
        sys.stdout.write(text)
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
