"""Healthy answers that hold foreign matter: names, quotations, code, terms, titles, references, translations.

Each kind takes the sentences of a right answer and puts in what real answers hold. See `planted_language.py`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping

from benchmarks.language_texts import Pool, run
from stresstest.detectors.text.scripts import weighted_length


def _listed(text: str) -> list[str]:
    return [" ".join(each.split()) for each in text.split("|")]


_NAMES = _listed(
    """
    John Smith|Sarah Connor|William Shakespeare|Jean-Baptiste de La Fontaine|Friedrich
    Nietzsche|New York|Los Angeles|Rio de Janeiro|Buenos Aires|Giuseppe Verdi|Miguel de
    Cervantes|Nguyễn Văn An|Orhan Pamuk|Fyodor Dostoevsky|University of Cambridge|Deutsche
    Bahn|Banco do Brasil|Massachusetts Institute of Technology|The New York Times|World Health
    Organization|Société Générale|Museo del Prado|Royal Dutch Shell|San Francisco Bay Area|Harry
    Potter|United Nations|European Space Agency|Bank of America|Guns N' Roses|Ludwig van
    Beethoven
    """
)
_OTHER_SCRIPTS = _listed(
    """
    北京大学|東京|Москва|القاهرة|서울|दिल्ली|Αθήνα|上海|Санкт-Петербург|大阪城
    """
)
_TERMS = _listed(
    """
    machine learning|deep learning|cloud computing|load balancer|feature engineering|continuous
    integration|pull request|open source|big data|end-to-end encryption|random forest|gradient
    descent|learning rate|overfitting|time to market|supply chain|cash flow|due diligence|best
    practices|key performance indicators|user experience|software as a service|natural language
    processing|reinforcement learning from human feedback|garbage collection|man in the
    middle|proof of work|return on investment|customer relationship management|test driven
    development|just in time|business to business|state of the art|know-how|work-life
    balance|call to action|fine-tuning|large language models|graphics processing unit|out of the
    box|trial and error|command line interface
    """
)
_TITLES = _listed(
    """
    The Lord of the Rings: The Return of the King|Gone with the Wind|One Flew over the Cuckoo's
    Nest|The Good, the Bad and the Ugly|Les Enfants du paradis|Der Himmel über Berlin|Il buono,
    il brutto, il cattivo|La vita è bella|Cien años de soledad|Le Petit Prince|À la recherche du
    temps perdu|Im Westen nichts Neues|Die Verwandlung|Also sprach Zarathustra|Nome da
    rosa|Grande Sertão: Veredas|The Old Man and the Sea|To Kill a Mockingbird|The Catcher in the
    Rye|For Whom the Bell Tolls|Crime and Punishment|War and Peace|Don Quijote de la
    Mancha|Harry Potter and the Philosopher's Stone|The Hitchhiker's Guide to the Galaxy|Never
    Let Me Go|The Remains of the Day|Le Comte de Monte-Cristo|Das Parfum|Se questo è un uomo|I
    Can't Get No Satisfaction|Bohemian Rhapsody|Stairway to Heaven|Let It Be|Here Comes the
    Sun|No Woman, No Cry|While My Guitar Gently Weeps|Like a Rolling Stone
    """
)
_CODE = (
    "```python\ndef load(path):\n    # {0}\n    with open(path) as file:\n        return file.read()\n```",
    '```bash\n# {0}\nsudo apt-get install build-essential\necho "the build has been started"\n```',
    "```js\n/* {0} */\nconst items = await fetch(url);\nconsole.log('we got all of the items');\n```",
    '```json\n{{"name": "demo", "description": "{0}", "private": true}}\n```',
    '```\nTraceback (most recent call last):\n  File "main.py", line 3, in <module>\nValueError: {0}\n```',
)
_SURNAMES = _listed("Smith|García|Müller|Dupont|Rossi|Silva|Johnson|Chen|Kim|Tanaka|O'Brien|van der Berg")
_QUOTES = ("“{}”", '"{}"', "«{}»", "« {} »", "„{}“", "‘{}’", "「{}」", "『{}』")
_LABELS = (
    "Yes|No",
    "Ja|Nein",
    "yes|no",
    "True|False",
    "Oui|Non",
    "Sí|No",
    "positive|negative|neutral",
    "да|нет",
)

_PAIR = 400
"""Characters of a line and its translation; longer ones are paragraphs."""

Doc = tuple[str, str]
"""An answer and the prompt that is known of it, "" mostly."""


def _spread(native: list[str], inserts: list[str], rng: random.Random, joint: str) -> str:
    """The inserts between the native sentences, no two of them neighbours where that can be."""
    places = sorted(rng.sample(range(1, len(native)), min(len(inserts), len(native) - 1)))
    out: list[str] = []
    for i, sentence in enumerate(native):
        if i in places:
            out += [joint, inserts[places.index(i)], joint]
        out.append((" " if out and out[-1] != joint else "") + sentence)
    return "".join(out)


def _inside(sentence: str, what: str, rng: random.Random) -> str:
    """A sentence with something put between two of its words."""
    words = sentence.split(" ")
    at = rng.randrange(1, len(words)) if len(words) > 1 else 1
    return " ".join([*words[:at], what, *words[at:]])


def _some(items: list[str], rng: random.Random, low: int, high: int) -> list[str]:
    return rng.sample(items, rng.randint(low, high))


def names(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Foreign names in half of the sentences, now and then in their own script, and a row of them."""
    del foreign
    said = [_inside(s, rng.choice(_NAMES), rng) if rng.random() < 0.5 else s for s in native]
    said[rng.randrange(len(said))] += f" ({rng.choice(_OTHER_SCRIPTS)})"
    return _spread(said, [", ".join(_some(_NAMES, rng, 3, 8)) + "."], rng, " "), ""


def quotations(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """One to three quotations of one to three sentences in quotation marks, behind a colon or alone."""
    style = rng.choice(_QUOTES)
    quoted = [style.format(" ".join(run(foreign, rng.randint(1, 3), rng))) for _ in range(rng.randint(1, 3))]
    return _spread(native, quoted, rng, rng.choice([" ", "\n\n"])), ""


def block_quotes(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Cited paragraphs behind ">"."""
    cited = ["> " + " ".join(run(foreign, rng.randint(1, 4), rng)) for _ in range(rng.randint(1, 2))]
    return _spread(native, cited, rng, "\n\n"), ""


def code(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Fenced code with foreign comments and messages, inline code, addresses."""
    blocks = [rng.choice(_CODE).format(rng.choice(foreign)) for _ in range(rng.randint(1, 3))]
    said = [_inside(s, "`git commit --amend --no-edit`", rng) if rng.random() < 0.2 else s for s in native]
    return _spread(said, blocks, rng, "\n\n"), ""


def terms(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """English technical terms in half of the sentences, bare or marked in the usual ways; and a list."""
    del foreign
    said = []
    for sentence in native:
        if rng.random() < 0.5:
            style = rng.choice(["{}", "{}", "({})", "*{}*", "**{}**", "“{}”"])
            sentence = _inside(sentence, style.format(rng.choice(_TERMS)), rng)
        said.append(sentence)
    listed = ["\n".join(f"- {term}" for term in _some(_TERMS, rng, 3, 8))] if rng.random() < 0.5 else []
    return _spread(said, listed, rng, "\n\n"), ""


def titles(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Lists of films, books and songs by their own names, and titles in the text."""
    del foreign
    mark = rng.choice(["- {}", "{i}. {}", "{i}. *{}*", "- **{}** (1994)", "* “{}”"])
    listed = "\n".join(mark.format(t, i=i) for i, t in enumerate(_some(_TITLES, rng, 3, 10), 1))
    said = [_inside(s, rng.choice(_TITLES), rng) if rng.random() < 0.2 else s for s in native]
    return _spread(said, [listed], rng, "\n\n"), ""


def references(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """A bibliography of foreign papers at the end, in one of the usual styles."""
    style = rng.choice(
        [
            "{0}, J., & {1}, M. A. ({2}). {3} *Journal of Applied Research*, 12(3), 45-67.",
            "[{n}] J. {0} and M. {1}, “{3}” IEEE Access, vol. 7, pp. 12–34, {2}.",
            "- {0}, J. et al. ({2}). {3} Oxford University Press.",
            "{n}. {0} J, {1} M. {3} N Engl J Med. {2};380(4):12-21. doi:10.1056/NEJMoa1812345",
            "{0}, Anna, and Mark {1}. “{3}” Journal of Modern History 45, no. 2 ({2}): 210–32.",
        ]
    )
    entries = [
        style.format(*rng.sample(_SURNAMES, 2), rng.randint(1950, 2024), s, n=n)
        for n, s in enumerate(run(foreign, rng.randint(2, 8), rng), 1)
    ]
    return " ".join(native) + "\n\n" + "\n".join(entries), ""


def links(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Links with foreign texts, bare addresses, e-mail addresses."""
    said = [
        _inside(s, f"[{rng.choice(foreign)}](https://example.org/the/page-of-the-day)", rng)
        if rng.random() < 0.2
        else _inside(s, "https://www.example.com/the/quick/brown/fox.html", rng)
        if rng.random() < 0.2
        else s
        for s in native
    ]
    return " ".join(said), ""


def mottoes(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """One short foreign sentence without any marks."""
    short = [s for s in foreign if weighted_length(s) < 90] or foreign
    longer = (native * 2)[:12] if len(native) < 12 else native
    return _spread(longer, [rng.choice(short)], rng, rng.choice([" ", "\n\n"])), ""


def _term(sentence: str) -> str:
    words = sentence.split()
    return " ".join(words[:3]) if len(words) > 3 else sentence[:6]


def glossary(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """A glossary: the foreign term, and what it means."""
    style = rng.choice(["- **{}**: {}", "{}: {}", "- {} – {}", "| {} | {} |", "{i}. {} = {}"])
    lines = []
    for i, sentence in enumerate(native, 1):
        term = rng.choice(_TERMS) if rng.random() < 0.5 else _term(rng.choice(foreign))
        lines.append(style.format(term, sentence, i=i))
    return "\n".join(lines), ""


def translations(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Two languages line by line, of lengths as alike as those of a translation, in the usual forms."""
    pairs = []
    rest = list(foreign)
    for one in native:
        wide = weighted_length(one)
        other = min(rest, key=lambda s: abs(weighted_length(s) - wide))
        rest.remove(other)
        if wide + weighted_length(other) <= _PAIR and wide / 2 < weighted_length(other) < wide * 2:
            pairs.append((one, other))
    style = rng.choice(
        ["{0}\n{1}\n", "{0}\n{1}", "{0}\n\n{1}\n", "{0} ({1})", "- {0} – {1}", "| {0} | {1} |"]
    )
    start = rng.choice([native[0] + "\n\n", ""])
    return start + "\n".join(style.format(*pair) for pair in pairs), ""


def requested(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """Sentences of the prompt come back: a text to translate or to comment on."""
    cited = run(foreign, rng.randint(3, 8), rng)
    text = " ".join(native[:2]) + "\n\n" + " ".join(cited) + "\n\n" + " ".join(native[2:])
    return text, "Translate: " + " ".join(cited)


def labels(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """150 lines that are one label each, of a foreign set."""
    del foreign
    choices = rng.choice(_LABELS).split("|")
    mark = rng.choice(["{}", "{i}. {}", "- {}", "{i}: {}"])
    lines = [mark.format(rng.choice(choices), i=i) for i in range(1, 151)]
    start = " ".join(native[:2]) + "\n" if rng.random() < 0.5 else ""
    return start + "\n".join(lines), ""


def keyed(native: list[str], foreign: list[str], rng: random.Random) -> Doc:
    """JSON with English keys, codes and names; what it says is in the right language."""
    del foreign
    keys = (
        "customer name and address",
        "delivery instructions",
        "review text",
        "is_verified",
        "product category",
    )
    rows = [
        {
            keys[0]: rng.choice(_NAMES),
            keys[2]: s,
            keys[3]: True,
            keys[4]: rng.choice(_TERMS),
            "id": f"SKU-{i}",
        }
        for i, s in enumerate(native)
    ]
    return json.dumps(rows, ensure_ascii=False, indent=rng.choice([None, 2])), ""


KINDS: Mapping[str, Callable[[list[str], list[str], random.Random], Doc]] = {
    "names": names,
    "quotations": quotations,
    "block quotes": block_quotes,
    "code": code,
    "technical terms": terms,
    "titles": titles,
    "references": references,
    "links": links,
    "mottoes": mottoes,
    "glossary": glossary,
    "translations": translations,
    "text of the prompt": requested,
    "labels": labels,
    "JSON keys": keyed,
}


def healthy(pool: Pool, wanted: str, kind: str, rng: random.Random) -> Doc:
    """(answer, prompt): an answer in `wanted` with foreign matter of this kind, half of it English."""
    others = [language for language in pool if language != wanted]
    other = "en" if wanted != "en" and rng.random() < 0.5 else rng.choice(others)
    return KINDS[kind](run(pool[wanted], rng.randint(6, 25), rng), list(pool[other]), rng)
