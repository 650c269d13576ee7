"""The fast path of `scan` against foreign text, of languages too that have no function words here."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from tests.support.drifting_texts import PROSE
from tests.support.foreign_texts import GERMAN, ITALIAN
from tests.support.screened import healthy_verdict
from tests.support.stories import story

_OTHERS = {
    "sv": (
        "Den gamle fyrvaktaren gick långsamt uppför trappan och såg att ljuset inte längre brann. "
        "Ingen visste varför båtarna inte hade kommit tillbaka till hamnen den kvällen. "
        "Nästa morgon hittade fiskarna en tom roddbåt vid stranden, full av blöta rep och gamla tidningar."
    ),
    "da": (
        "Den gamle fyrmester gik langsomt op ad trappen og så, at lyset ikke længere brændte. "
        "Ingen vidste, hvorfor bådene ikke var kommet tilbage til havnen den aften. "
        "Næste morgen fandt fiskerne en tom robåd ved stranden, fuld af våde reb og gamle aviser."
    ),
    "no": (
        "Den gamle fyrvokteren gikk sakte opp trappen og så at lyset ikke lenger brant. "
        "Ingen visste hvorfor båtene ikke hadde kommet tilbake til havnen den kvelden. "
        "Neste morgen fant fiskerne en tom robåt ved stranden, full av vått tau og gamle aviser."
    ),
    "nl": (
        "De oude vuurtorenwachter liep langzaam de trap op en zag dat het licht niet meer brandde. "
        "Niemand wist waarom de boten die avond niet waren teruggekomen in de haven. "
        "De volgende ochtend vonden de vissers een lege roeiboot op het strand."
    ),
    "pl": (
        "Stary latarnik wszedł powoli po schodach i zobaczył, że światło już się nie pali. "
        "Nikt nie wiedział, dlaczego łodzie nie wróciły tego wieczoru do portu. "
        "Następnego ranka rybacy znaleźli pustą łódkę na plaży, pełną mokrych lin i starych gazet."
    ),
    "cs": (
        "Starý strážce majáku pomalu vyšel po schodech a uviděl, že světlo už nehoří. "
        "Nikdo nevěděl, proč se lodě toho večera nevrátily do přístavu. "
        "Příštího rána našli rybáři na pobřeží prázdný člun plný mokrých lan a starých novin."
    ),
    "hu": (
        "Az öreg világítótoronyőr lassan felment a lépcsőn, és látta, hogy a fény már nem ég. "
        "Senki sem tudta, miért nem tértek vissza a hajók aznap este a kikötőbe. "
        "Másnap reggel a halászok egy üres csónakot találtak a parton, tele nedves kötelekkel."
    ),
    "fi": (
        "Vanha majakanvartija kiipesi hitaasti portaita ylös ja näki, ettei valo enää palanut. "
        "Kukaan ei tiennyt, miksi veneet eivät olleet palanneet satamaan sinä iltana. "
        "Seuraavana aamuna kalastajat löysivät rannalta tyhjän soutuveneen, joka oli täynnä märkiä köysiä."
    ),
    "et": (
        "Vana majakavaht läks aeglaselt trepist üles ja nägi, et tuli enam ei põle. "
        "Keegi ei teadnud, miks paadid sel õhtul sadamasse tagasi ei tulnud. "
        "Järgmisel hommikul leidsid kalurid rannast tühja sõudepaadi, mis oli täis märgi köisi."
    ),
    "ro": (
        "Bătrânul paznic al farului a urcat încet scările și a văzut că lumina nu mai ardea. "
        "Nimeni nu știa de ce bărcile nu se întorseseră în port în seara aceea. "
        "A doua zi dimineață pescarii au găsit pe plajă o barcă goală, plină de frânghii ude."
    ),
    "ca": (
        "El vell faroner va pujar lentament l'escala i va veure que el llum ja no cremava. "
        "Ningú no sabia per què les barques no havien tornat al port aquell vespre. "
        "L'endemà al matí els pescadors van trobar una barca buida a la platja, plena de cordes molles."
    ),
    "hr": (
        "Stari čuvar svjetionika polako se popeo stepenicama i vidio da svjetlo više ne gori. "
        "Nitko nije znao zašto se brodovi te večeri nisu vratili u luku. "
        "Sljedećeg jutra ribari su na plaži pronašli prazan čamac pun mokrih užadi i starih novina."
    ),
    "sw": (
        "Mlinzi mzee wa mnara wa taa alipanda ngazi polepole akaona kwamba taa haiwaki tena. "
        "Hakuna aliyejua kwa nini mashua hazikurudi bandarini jioni hiyo. "
        "Asubuhi iliyofuata wavuvi walikuta mashua tupu ufukweni, imejaa kamba zilizolowa."
    ),
    "tl": (
        "Dahan-dahang umakyat sa hagdan ang matandang bantay ng parola at nakitang patay ang ilaw. "
        "Walang nakakaalam kung bakit hindi bumalik sa daungan ang mga bangka noong gabing iyon. "
        "Kinaumagahan nakakita ang mga mangingisda ng isang bangkang walang laman."
    ),
    "sq": (
        "Roja i vjetër i farit u ngjit ngadalë shkallëve dhe pa se drita nuk digjej më. "
        "Askush nuk e dinte pse varkat nuk ishin kthyer në port atë mbrëmje. "
        "Mëngjesin tjetër peshkatarët gjetën një varkë bosh në breg, plot me litarë të lagur."
    ),
    "af": (
        "Die ou vuurtoringwagter het stadig die trap opgestap en gesien dat die lig nie meer brand nie. "
        "Niemand het geweet hoekom die bote daardie aand nie na die hawe teruggekom het nie. "
        "Die volgende oggend het die vissers 'n leë roeiboot op die strand gekry."
    ),
    "lt": (
        "Senasis švyturio prižiūrėtojas lėtai užlipo laiptais ir pamatė, kad šviesa nebedega. "
        "Niekas nežinojo, kodėl tą vakarą valtys negrįžo į uostą. "
        "Kitą rytą žvejai rado paplūdimyje tuščią valtį, pilną šlapių virvių ir senų laikraščių."
    ),
}
"""One story in languages of which the fast path knows no words of their own."""
_NATIVE = {
    "en": story(10, seed=3),
    "it": ITALIAN
    + "La mattina dopo i pescatori trovarono una barca vuota vicino agli scogli, piena di reti bagnate e di "
    "vecchi giornali. Il sindaco disse che non c'era niente da temere, ma nessuno gli credette davvero. "
    "Passarono tre giorni prima che il guardiano parlasse, e quando lo fece la sua voce era quella di un "
    "uomo che aveva visto qualcosa nel buio. Da allora la lampada resta accesa anche di giorno.",
    "de": GERMAN
    + "Am nächsten Morgen fanden die Fischer ein leeres Boot am Strand, in dem nasse Netze lagen. "
    "Der Bürgermeister sagte, dass es keinen Grund zur Sorge gebe, aber niemand glaubte ihm. "
    "Erst nach drei Tagen sprach der Wärter, und seine Stimme klang wie die eines Mannes, der im "
    "Dunkeln etwas gesehen hat. Seitdem brennt das Licht auch am Tag, und keiner fragt mehr danach.",
}


@pytest.mark.slow
@pytest.mark.parametrize("wanted", _NATIVE)
@pytest.mark.parametrize("language", _OTHERS)
def test_a_foreign_opening_or_passage_never_passes(language: str, wanted: str) -> None:
    """Wherever two sentences and more stand in any other language, and the panel says so, the fast path
    asks it: what a language's own little words cannot show, the letters of its words do."""
    spec = DetectorSpec(language=wanted)
    native, foreign = _NATIVE[wanted], _OTHERS[language]
    half = native.index(". ", len(native) // 2) + 2
    texts = [
        f"{foreign.split('. ')[0]}. {native}",
        f"{native[:half]}{foreign}{native[half:]}",
        f"{native}\n\n{foreign}",
    ]
    flagged = [text for text in texts if detect_text(text, spec, "stop").degenerate]
    assert flagged, "the panel sees none of it"
    assert not [text for text in flagged if healthy_verdict(text, spec, "stop") is not None]


@pytest.mark.parametrize("wanted", _NATIVE)
def test_native_prose_is_not_read_again(wanted: str) -> None:
    """What keeps the fast path fast: healthy prose of the expected language is passed."""
    spec = DetectorSpec(language=wanted)
    assert healthy_verdict(_NATIVE[wanted], spec, "stop") is not None


def record(lines: list[str]) -> str:
    return json.dumps([{"id": n, "text": line} for n, line in enumerate(lines)], ensure_ascii=False)


def commented(lines: list[str]) -> str:
    return "```python\n" + "".join(f"# {line}\ny = 7\n" for line in lines) + "```"


IN_A_LIST = "- ```bash\n  ls -la\n  ```"
SHAPES: dict[str, Callable[[list[str], list[str]], str]] = {
    "code with comments": lambda own, other: f"{' '.join(own)}\n\n{commented(own)}\n\n{' '.join(other)}",
    "code in a list item": lambda own, other: f"{' '.join(own)}\n\n{IN_A_LIST}\n\n{' '.join(other)}",
    "a record on one line": lambda own, other: record([*own, *other]),
    "a record after a sentence": lambda own, other: f"{own[0]}\n\n{record([*own, *other])}",
    "a fenced record": lambda own, other: f"```json\n{record([*own, *other])}\n```",
    "a quotation": lambda own, other: f'{own[0]} "{" ".join(own)}"\n\n{" ".join(other)}',
    "an open quotation": lambda own, other: f"“{' '.join(own)}\n\n{' '.join(other)}",
    "a block quote": lambda own, other: "".join(f"> {line}\n" for line in own) + "\n" + " ".join(other),
    "a table": lambda own, other: "| a |\n|---|\n" + "".join(f"| {line} |\n" for line in [*own, *other]),
    "a table before": lambda own, other: "".join(f"| {line} |\n" for line in own) + "\n" + " ".join(other),
}
"""An answer of some sentences in the wanted language, and then of others."""


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("wanted", "other"), [("it", "fr"), ("en", "it"), ("fr", "en")])
def test_parts_that_are_passed_on_say_what_the_whole_says(shape: str, wanted: str, other: str) -> None:
    """The screen passes the sentences around gaps on: a block, a record or a quotation that begins before
    them must not swallow them. What the suite finds is found in recorded text."""
    text = SHAPES[shape](PROSE[wanted][:4], PROSE[other])
    spec = DetectorSpec(language=wanted)
    for reason in ("stop", "length"):
        whole, recorded = detect_text(text, spec, reason), detect_recorded(text, spec, reason)
        assert (recorded.symptom, recorded.onset) == (whole.symptom, whole.onset)
