"""The cheapest screen for language: the little words that a language uses all the time.

A statistical identifier costs some fifty microseconds a passage, and nearly every passage of a healthy
answer is plainly in the wanted language. So passages full of its own function words, with hardly one
of another language, are passed without asking it. Only words that no other language listed here uses
speak for one ("la", "de", "con", "que" do not); all of them are signs of grammar, which a heap of
names, word fragments or invented words lacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OWN = {
    "it": (
        "il gli della dello delle degli dei nel nella nelle nello negli alla alle agli dal dalla dalle "
        "che perché però anche più non è aveva avevano erano sono questo questa quello quella mentre dopo "
        "senza sotto ogni suoi loro essere stato stata molto nessuno tutti dove così poi ancora fino "
        "verso ed sul sulla sulle"
    ),
    "en": (
        "the and of that was with had were from they which this would their there been have when what "
        "into through before after because where while without only about then than could should it is to "
        "by not but you who its at for she her him how more other some said did are your here these can "
        "will has been both each between also such"
    ),
    "fr": (
        "les des du une est et dans qui sur pas pour avec cette était avait sont mais nous vous ils elle "
        "aux leur leurs sans sous comme être même où après avant très tout ses ce cet quand pendant parce "
        "encore aussi puis toute tous peut ont"
    ),
    "de": (
        "der das und ist nicht ein eine einen einem mit von auf für sich auch wurde dem sie ich zu im wie "
        "aber nach bei oder wenn dass noch nur über durch werden hat haben zum zur ihm ihn er den weil "
        "wir uns sein seine"
    ),
    "es": (
        "el los las y por pero más fue había muy cuando sin sobre hasta desde su sus al donde ya otro "
        "entonces ni hay era él también ese esos aquí algunas algunos puede pueden"
    ),
    "pt": (
        "não os do das dos em uma ao aos na mais foi são pelo pela até muito já ele ela isso você "
        "eu nas seu dele dela também à"
    ),
    "nl": (
        "het een van dat op niet aan er ook als maar bij uit door naar heeft hun ze wordt werd zijn voor "
        "om deze haar nog wel geen meer wij hij veel worden kan moet hebben zich"
    ),
    "id": (
        "yang dan dengan untuk dari pada ini itu adalah tidak dalam akan juga atau oleh karena saya anda "
        "mereka kita dapat bisa lebih seperti telah sudah sebuah tersebut ke ada banyak secara menjadi"
    ),
    "tr": (
        "ve bir bu için ile çok olarak olan daha gibi ancak kadar sonra veya ise değil olduğu tarafından "
        "her şey bunun onun önce sadece nasıl hem ama ben"
    ),
    "vi": (
        "và của là có không được người cho trong một các những với này khi đến đã từ để bạn cũng nhiều "
        "như về sẽ thể việc vào ra theo đó hoặc nếu trên tôi chúng phải làm rất"
    ),
    "pl": (
        "nie się że jest jak ale przez dla był jego są czy już może który która które być oraz tak jej "
        "tylko przed ich było lub także"
    ),
    "ru": (
        "и в не на что с как это по но из у за от для так же или бы если его ее её они был была было мы вы "
        "ты к о при может быть также который которые когда только все всё уже где чтобы более их"
    ),
    "ar": (
        "في من على إلى أن التي الذي هذا هذه ذلك عن مع كان كانت هو هي ما لا أو كما بين بعد قبل كل قد لم حيث "
        "يمكن هناك أي إذا ثم عند تم يتم أنه أكثر خلال"
    ),
    "hi": (
        "है में की के का से को और हैं पर ने यह कि एक भी जो लिए नहीं तो था थी थे कर या इस वह करने अपने आप साथ "
        "हो किया जा सकता सकते गया होता हुए बाद"
    ),
}
_SHARED = {
    "it": "la le lo i e di a da in con per su un una un' si se come c'è tra fra ma al del ai ha era quando",
    "en": "a an in on as or if be he we his my i do so no all any may one our me us them those",
    "fr": "la le de en un a il on que qu se si son sa par au ne ces plus je tu moi y d' l'",
    "de": "die in an als es am um so aus man hier war vor des bis",
    "es": "la lo de en un una que a con se para como es no si me te tu le este esta del o e porque son entre",
    "pt": "a o e de que um no da por para com se como mas sua seus este esta é ou entre sem nos",
    "nl": "de en in is te die met ik je dan of tot over was zo we",
    "id": "di dia ia kami para para se ya hal",
    "tr": "da de ne o ya en var mi mı biz iki",
    "vi": "ở mà thì do hay ai anh em cô ông bà nó năm",
    "pl": "i w na z do to o po co za od ten ta a u",
    "ru": "а я он она да до во со нет ни",
    "ar": "و ف ب ل",
    "hi": "ही न हम",
}
_LATIN = "et in est non ad cum ut sed qui quae quod ex per ab aut enim nec si"
_WORD = re.compile(r"[^\W\d_]+")
_WORD_WITH_SIGNS = re.compile(r"[^\W\d_][\w\u0900-\u097f]*")
"""Devanagari's vowel signs are no word characters for `re`."""
_LEAST_WORDS = 8
_LEAST_OWN = 3
_LEAST_ONLY = 2
_OWN_SHARE = 0.15
_RIVAL_SHARE = 0.75
_FOREIGN_SHARE = 0.15
"""Of the wanted language's words: with more words of another alone the passage is not plain."""


def _languages() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for table in (_OWN, _SHARED):
        for language, words in table.items():
            for word in words.split():
                users = found.setdefault(word, [])
                if language not in users:
                    users.append(language)
    return {word: tuple(users) for word, users in found.items()}


_LANGUAGES_OF = _languages()
GRAMMAR = frozenset(_LANGUAGES_OF) | frozenset(_LATIN.split())
"""Every listed word, in lower case: signs that a sentence is built as a sentence."""


_SETS = {
    wanted: (
        frozenset(word for word, users in _LANGUAGES_OF.items() if wanted in users),
        frozenset(word for word, users in _LANGUAGES_OF.items() if users == (wanted,)),
        frozenset(word for word, users in _LANGUAGES_OF.items() if len(users) == 1 and wanted not in users),
    )
    for wanted in _OWN
}
"""Language → words it uses, words only it uses, words that only one other uses."""
LISTED = frozenset(_OWN)
"""Languages with words of their own here."""


@dataclass(frozen=True, slots=True)
class Count:
    """Function words of a text, by language. words: all words. uses: used there; only: there alone."""

    words: int
    uses: dict[str, int]
    only: dict[str, int]

    def plainly(self, wanted: str) -> bool:
        """Whether they leave no doubt about `wanted` (ISO 639-1)."""
        own = self.uses.get(wanted, 0)
        if own < _LEAST_OWN or own < _OWN_SHARE * self.words:
            return False
        rival = max((n for language, n in self.uses.items() if language != wanted), default=0)
        foreign = sum(self.only.values()) - self.only.get(wanted, 0)
        return rival <= _RIVAL_SHARE * own and foreign <= _FOREIGN_SHARE * own


def languages_of(word: str) -> tuple[str, ...]:
    """The listed languages that use this lower-case word all the time."""
    return _LANGUAGES_OF.get(word, ())


def words_of(text: str) -> list[str]:
    """The words of a text as it writes them."""
    return (_WORD_WITH_SIGNS if "\u0900" <= max(text, default="") <= "\u097f" else _WORD).findall(text)


def count(text: str) -> Count:
    """Count the function words of `text`."""
    words = words_of(text.lower())
    uses: dict[str, int] = {}
    only: dict[str, int] = {}
    for word in words:
        languages = _LANGUAGES_OF.get(word)
        if languages is None:
            continue
        for language in languages:
            uses[language] = uses.get(language, 0) + 1
        if len(languages) == 1:
            only[languages[0]] = only.get(languages[0], 0) + 1
    return Count(len(words), uses, only)


def quickly(text: str, wanted: str) -> bool:
    """A faster `plainly` for a `LISTED` language that passes less: only own words may be there."""
    words = _WORD.findall(text.lower())
    uses, only, others = _SETS[wanted]
    own = [word for word in words if word in uses]
    if len(words) < _LEAST_WORDS or len(own) < _LEAST_OWN or len(own) < _OWN_SHARE * len(words):
        return False
    if len([word for word in own if word in only]) < _LEAST_ONLY:
        return False
    return len([word for word in words if word in others]) <= _FOREIGN_SHARE * len(own)


def plainly(text: str, wanted: str) -> bool:
    """Whether `text` is plainly in `wanted` (ISO 639-1). False where that cannot be told this cheaply."""
    counted = count(text)
    return counted.words >= _LEAST_WORDS and counted.plainly(wanted)
