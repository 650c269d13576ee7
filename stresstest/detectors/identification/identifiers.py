"""py3langid and langdetect with the same results in a seventh of the memory.

Unmodified they take 83 and 63 MB in every process. Most rows of py3langid's automaton are equal in most
places, so rows are cut into blocks and each distinct block is stored once; of its table of features by
language only the requested languages are kept. langdetect stores a number for each of 55 languages with
every n-gram, most of them zero; here only the others are stored, and multiplied as one array. Imported when
the first passage is examined, because both libraries are heavy.
"""

from __future__ import annotations

import copy
import io
import lzma
from array import array
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
from langdetect import LangDetectException, detector, detector_factory
from langdetect.lang_detect_exception import ErrorCode
from numpy.typing import NDArray
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

_BLOCK_SIZE = 16
"""Places of a row in a block: 39 MB of rows become 6 MB of blocks and of their positions."""
_MAX_EXPANDED = 2_000
"""N-grams whose rows are kept expanded, 500 bytes each: most n-grams of a text recur soon."""
_DRAWS = 5
"""N-grams that langdetect draws before it looks whether a language is certain."""


class LanguageSubsetIdentifier(LanguageIdentifier):  # type: ignore[misc]
    """py3langid over some languages, with the library's own scores: only the automaton's storage differs."""

    __slots__ = ("_blocks", "_places")

    @classmethod
    def load(cls) -> LanguageSubsetIdentifier:
        """The library's model, its probabilities normalised."""
        try:
            found: LanguageSubsetIdentifier = cls.from_model_file(MODEL_FILE, norm_probs=True)
        except OSError:  # it is unpacked into a temporary file, for which there is no room
            found = cls._load_in_memory()
        rows = np.frombuffer(found.tk_nextmove, np.dtype(found.tk_nextmove.typecode)).reshape(-1, _BLOCK_SIZE)
        first, which = _unique_rows(rows)
        found._blocks = array("I", rows[first].astype(np.uintc).tobytes())
        found._places = array("I", (which * _BLOCK_SIZE).astype(np.uintc).tobytes())
        found._rowbase = array("I", (np.asarray(found.tk_row, np.uintc) * (256 // _BLOCK_SIZE)).tobytes())
        found.tk_output = array("i", found.tk_output)
        found.tk_nextmove = found.tk_row = None
        return found

    @classmethod
    def _load_in_memory(cls) -> LanguageSubsetIdentifier:
        """The same at the cost of 50 MB more for as long as it takes."""
        with lzma.open(MODEL_DIR / MODEL_FILE) as packed:
            data = np.load(io.BytesIO(packed.read()), allow_pickle=False)
        moves, rows = (
            array(np.dtype(held.dtype).char.upper(), held.tobytes())
            for held in (data["nextmove"], data["nextmove_row"])
        )
        model = data["ptc"], data["pc"], data["classes"].tolist(), moves, data["out_feat"].tolist()
        found: LanguageSubsetIdentifier = cls(*model, norm_probs=True, tk_row=rows)
        return found

    def restricted_to(self, languages: frozenset[str]) -> LanguageSubsetIdentifier:
        """The same for some of its languages; what belongs to others is not kept."""
        found = copy.copy(self)
        found.set_languages(languages)
        found._full_model = found.nb_ptc, found.nb_pc, found.nb_classes
        return found

    def _raw_score(self, text: bytes) -> Any:
        visits = self._feature_counts(text)
        if visits:
            return self._sparse_score(visits, self.nb_ptc)
        return np.zeros(len(self.nb_classes), np.float32)

    def _feature_counts(self, text: bytes) -> Counter[int]:
        """How often each feature of the model occurs in the text."""
        blocks, places, rows, features = self._blocks, self._places, self._rowbase, self.tk_output
        state = 0
        found = []
        for letter in text:
            state = blocks[places[rows[state] + (letter >> 4)] + (letter & 15)]
            feature = features[state]
            if feature >= 0:
                found.append(feature)
        return Counter(found)


def _unique_rows(rows: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(the first of each kind of row, which kind each row is of)."""
    factors = np.random.Generator(np.random.PCG64(3)).integers(0, 1 << 63, rows.shape[1], np.uint64)
    names = np.zeros(len(rows), np.uint64)
    for column, factor in zip(rows.T, factors, strict=True):
        names += column.astype(np.uint64) * factor
    _, first, which = np.unique(names, return_index=True, return_inverse=True)
    if not all(np.array_equal(column[first][which], column) for column in rows.T):
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


class IdentifierCache:
    """The languages of py3langid's model, and its identifiers; the whole model is kept only while one is made
    of it."""

    def __init__(self, usual: frozenset[str]) -> None:
        whole = LanguageSubsetIdentifier.load()
        self.all_languages = frozenset(whole.labels)
        self._usual = whole.restricted_to(usual & self.all_languages)
        self._languages = usual & self.all_languages

    def for_languages(self, languages: frozenset[str]) -> LanguageSubsetIdentifier:
        """The identifier over those of the languages that the model has. Rare ones are read from the file."""
        languages &= self.all_languages
        return (
            self._usual
            if languages == self._languages
            else LanguageSubsetIdentifier.load().restricted_to(languages)
        )


class _NgramProbabilities(dict[str, int]):
    """N-gram → its number for each language, as langdetect looks them up; zeros are filled in."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        self._starts: NDArray[np.uintc] = np.zeros(0, np.uintc)
        self._languages: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._values: NDArray[np.float64] = np.zeros(0)
        self._expanded: dict[str, NDArray[np.float64]] = {}

    def __getitem__(self, gram: str) -> NDArray[np.float64]:  # type: ignore[override]
        row = self._expanded.get(gram)
        if row is None:
            row = np.zeros(self._size)
            place = super().__getitem__(gram)
            mine = slice(self._starts[place], self._starts[place + 1])
            row[self._languages[mine]] = self._values[mine]
            if len(self._expanded) >= _MAX_EXPANDED:
                self._expanded.clear()
            self._expanded[gram] = row
        return row

    def fill(self, grams: array[int], languages: array[int], values: array[float], size: int) -> None:
        """Take triples of (place of an n-gram, language, its number), in any order."""
        order = np.argsort(np.asarray(grams), kind="stable")
        counts = np.bincount(np.asarray(grams), minlength=len(self))
        self._size = size
        self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.uintc)
        self._languages = np.asarray(languages)[order]
        self._values = np.asarray(values)[order]


class _LangdetectDetector(detector.Detector):  # type: ignore[misc]
    """langdetect's detector, all languages at once: the same products and sums, to the last bit."""

    def _detect_block(self) -> None:
        """The library's loop, with the five draws between two looks at the result in one array operation."""
        self.cleaning_text()
        ngrams = self._extract_ngrams()
        if not ngrams:
            raise LangDetectException(ErrorCode.CantDetectError, "No features in text.")
        probabilities = self.word_lang_prob_map
        place = {gram: n for n, gram in enumerate(dict.fromkeys(ngrams))}
        rows = np.array([probabilities[gram] for gram in place])
        places = [place[gram] for gram in ngrams]
        total = np.zeros(len(self.langlist))
        self.random.seed(self.seed)
        choice = self.random.choice
        for _ in range(self.n_trial):
            factors = np.empty((1 + _DRAWS, len(self.langlist)))
            factors[0] = self._init_probability()
            weight = (self.alpha + self.random.gauss(0.0, 1.0) * self.ALPHA_WIDTH) / self.BASE_FREQ
            draws, done = 1, 0
            while True:
                drawn = [choice(places) for _ in range(draws)]
                np.add(rows[drawn], weight, out=factors[1 : 1 + draws])
                prob = np.multiply.reduce(factors[: 1 + draws], axis=0)
                prob /= sum(prob.tolist())  # numpy adds in another order
                if prob.max() > self.CONV_THRESHOLD or done >= self.ITERATION_LIMIT:
                    break
                factors[0] = prob
                draws, done = _DRAWS, done + _DRAWS
            total += prob / self.n_trial
        self.langprob = total.tolist()


class LangdetectProfiles(detector_factory.DetectorFactory):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.word_lang_prob_map = _NgramProbabilities()
        self._triples = array("I"), array("B"), array("d")

    def _create_detector(self) -> _LangdetectDetector:
        return _LangdetectDetector(self)

    def load_profile(self, profile_directory: str) -> None:
        super().load_profile(profile_directory)
        self.word_lang_prob_map.fill(*self._triples, len(self.langlist))
        del self._triples

    def add_profile(self, profile: Any, index: int, langsize: int) -> None:  # noqa: ARG002  the library passes it
        """One language's frequencies, as shares of all n-grams of their length."""
        self.langlist.append(profile.name)
        places = self.word_lang_prob_map
        grams, languages, values = self._triples
        for gram, frequency in profile.freq.items():
            place = places.setdefault(gram, len(places))
            if 1 <= len(gram) <= 3:
                grams.append(place)
                languages.append(index)
                values.append(1.0 * frequency / profile.n_words[len(gram) - 1])


@lru_cache(maxsize=1)
def langdetect_profiles() -> LangdetectProfiles:
    found = LangdetectProfiles()
    found.load_profile(detector_factory.PROFILES_DIRECTORY)
    return found


def langdetect_probabilities(text: str) -> list[Any]:
    """langdetect's ``detect_langs``, seeded: unseeded it draws its n-grams at random and contradicts itself.

    Raises LangDetectException where there is nothing to go by.
    """
    factory = langdetect_profiles()
    factory.set_seed(0)
    voter = factory.create()
    voter.append(text)
    found: list[Any] = voter.get_probabilities()
    return found
