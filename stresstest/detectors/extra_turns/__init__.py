"""Extra turns: the answer goes on past the model's turn, as the user and the model in turn."""

from stresstest.detectors.entry import Cadence, DetectorEntry, SymptomInfo, lazy
from stresstest.model import SymptomKind

EXTRA_TURNS = DetectorEntry(
    SymptomInfo(
        SymptomKind.EXTRA_TURNS,
        label="extra turns",
        description="the answer continues past the end of its turn and writes the user's next one itself",
        mark='<path d="M2 3H8L10 5 8 7H4L2 9 4 11H10"></path>',
        precedence=15,
        exact_onset=True,
        remedy="Serve the model with its own chat template and stop tokens (generation_config.json, or "
        "stop_token_ids in the request), and measure again: no cap takes their place.",
        specimen="\nuser\nE poi?\nassistant\nPoi il guardiano tornò alla lanterna e aspettò.",
    ),
    online=lazy("extra_turns.online.ExtraTurnsDetector", "spec"),
    cadence=Cadence.TOKENS,
    screen=lazy("extra_turns.online.suspect_extra_turns"),
    reads_lines=False,
)
