"""Every fault of the wire through the whole of `stresstest run`: sentence, exit code, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.errors import ExitCode
from tests.faults.catalogue import FAULTS, SHAPES, Fault, Shape
from tests.faults.page import ADDRESSES, PAGE, Plays, page, play_all, told
from tests.faults.playing import LATER, Played, at_first

pytestmark = pytest.mark.simulated


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    """All faults, played once for all tests of this file."""
    return play_all(tmp_path_factory.mktemp("faults"))


def kept_its_word(played: Played) -> None:
    """What holds whatever happened: no traceback, no half-kept stream, tokens counted as they came."""
    assert "Traceback" not in played.stderr
    for generation in played.generations:
        assert generation.failure is not None or generation.finish_reason is not None
        assert generation.verdict.onset is None, "a fault of the wire is no degeneration"
        if generation.failure is not None:
            assert generation.failure.at_token == generation.verdict.tokens == len(generation.tokens)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.start], ids=lambda f: f.name)
def test_from_the_first_question_on(plays: Plays, fault: Fault) -> None:
    """A server that is no use is told in one sentence with exit 3, before anything is stored or retried."""
    played = plays.start[fault.name]
    kept_its_word(played)
    assert played.code == ExitCode.ENDPOINT
    assert fault.said in played.error
    assert played.stderr.count("stresstest: ") == 1
    assert (played.generations, played.retries, played.stdout) == ((), (), "")


@pytest.mark.parametrize("name", ADDRESSES)
def test_where_no_server_can_be_reached(plays: Plays, name: str) -> None:
    """Refused, unknown, untrusted: each is a sentence of its own."""
    played = plays.addresses[name]
    kept_its_word(played)
    assert played.code == ExitCode.ENDPOINT
    assert ADDRESSES[name] in played.error
    assert "_ssl.c" not in played.error
    assert played.generations == ()


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.midway == "retried"], ids=lambda f: f.name)
def test_a_request_without_an_answer_is_asked_again(plays: Plays, fault: Fault) -> None:
    """What failed before its first token is repeated, visibly and once, and nothing of it remains."""
    played = plays.midway["retried"]
    kept_its_word(played)
    assert played.code == ExitCode.DONE
    assert told(fault, played.retries)
    assert len(played.retries) == sum(1 for f in FAULTS if f.midway == "retried")
    assert sum(g.attempts - 1 for g in played.generations) == len(played.retries)
    assert "(429): the gateway's reason); retry in 0.3 s" in played.stderr
    assert played.lost == []


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.midway == "lost"], ids=lambda f: f.name)
def test_a_stream_that_breaks_is_kept_and_marked(plays: Plays, fault: Fault) -> None:
    """What broke after its first token is data: kept with its tokens, system by fact, and not repeated."""
    played = plays.midway["lost"]
    kept_its_word(played)
    assert played.code == ExitCode.DONE
    assert told(fault, played.losses)
    assert len(played.lost) == sum(1 for f in FAULTS if f.midway == "lost")
    assert played.retries == ()
    assert played.document["planes"]["system"] == len(played.lost)
    assert played.document["onsets"] == 0


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.stays is not None], ids=lambda f: f.name)
def test_a_server_that_dies_leaves_what_was_measured(plays: Plays, fault: Fault) -> None:
    """The exit code of its kind; all that was answered is kept whole; the resume command is told."""
    played = plays.stays[fault.name]
    kept_its_word(played)
    assert played.code == fault.stays
    whole = [g for g in played.generations if g.failure is None]
    assert len(whole) == LATER
    assert played.document["generations"] == len(played.generations)
    assert played.document["threshold"]["certified"] is False
    if played.code == ExitCode.ENDPOINT:
        assert fault.said in played.error
        assert f"--resume {played.document['run_id']}" in played.stderr
        assert played.lost == []
    else:
        assert all(fault.said in sentence for sentence in played.losses)


def test_a_climb_that_was_lost_whole_is_asked_again_by_a_resume(tmp_path: Path) -> None:
    """A server that dies in the very first answers has measured nothing: the run is not done with, its end is
    the endpoint's fault (exit 3), and the resume asks for the same generations again and certifies."""
    cut = next(f for f in FAULTS if f.name == "stream cut")
    broken, resumed = at_first(cut, tmp_path)
    kept_its_word(broken)
    assert broken.code == ExitCode.ENDPOINT
    assert "All 2 answers were lost to service failures." in broken.error
    assert cut.said in broken.error
    assert f"--resume {broken.document['run_id']}" in broken.stderr
    assert [len(g.tokens) for g in broken.generations] == [20, 20]
    assert resumed.code == ExitCode.DONE
    assert resumed.lost == []
    assert {g.key for g in broken.generations} < {g.key for g in resumed.generations}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_poor_and_odd_streams_still_measure(plays: Plays, shape: Shape) -> None:
    """Less than vLLM sends is enough for the job, and what is missing is told with its cost; an odd framing
    changes nothing in the result."""
    played, plain = plays.shapes[shape.name], plays.shapes["no [DONE]"]
    kept_its_word(played)
    assert played.code == shape.code
    assert played.lost == []
    assert [g.text for g in played.generations] == [g.text for g in plain.generations]
    assert played.document["threshold"]["certified"] is (shape.code == 0)
    if shape.said is None:
        assert played.document["threshold"] == plain.document["threshold"]
        assert [gap for gap in played.missing if not gap.startswith("GPU")] == []
    else:
        assert shape.said in played.missing


def test_the_page_of_faults_is_what_happens(plays: Plays) -> None:
    """docs/faults.md is written by playing; nobody may change a sentence and forget it (`make faults`)."""
    assert PAGE.read_text(encoding="utf-8") == page(plays)
