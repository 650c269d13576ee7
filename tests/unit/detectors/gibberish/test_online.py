"""Gibberish: every kind is found where it begins; what only looks strange is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.online import GibberishDetector
from stresstest.detectors.language.online import LanguageDetector
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Symptom, SymptomKind, Token

PROSE = {
    "it": "Il vecchio pescatore tornò al porto quando ormai era notte e nessuno lo aspettava più. "
    "La maestra aprì "
    "la finestra e ascoltò a lungo il rumore della pioggia sui tetti delle case.",
    "en": "The old fisherman came back to the harbour when it was already dark and nobody was waiting. The "
    "teacher opened the window and listened for a long time to the rain on the roofs of the town.",
    "de": "Der alte Fischer kam erst in den Hafen zurück, als es schon dunkel war und niemand mehr auf ihn "
    "wartete. Die Lehrerin öffnete das Fenster und hörte lange dem Regen auf den Dächern zu.",
    "ru": "Старый рыбак вернулся в гавань, когда уже стемнело и никто его больше не ждал. "
    "Учительница открыла "
    "окно и долго слушала, как дождь стучит по крышам домов.",
    "tr": "Yaşlı balıkçı limana döndüğünde hava çoktan kararmıştı ve onu bekleyen kimse kalmamıştı. "
    "Öğretmen "
    "pencereyi açtı ve uzun süre evlerin çatılarına yağan yağmurun sesini dinledi.",
    "vi": "Ông lão đánh cá trở về bến cảng khi trời đã tối và không còn ai đợi ông nữa. Cô giáo mở "
    "cửa sổ và "
    "lắng nghe rất lâu tiếng mưa rơi trên những mái nhà.",
}
STRAY = [
    "дом",
    "вода",
    "東京",
    "سلام",
    "ภาษา",
    "한국어",
    "मौसम",
    "Ελλάδα",
    "שלום",
    "город",
    "中文",
    "كتاب",
    "ไทย",
    "사람",
    "पानी",
    "λόγος",
    "ספר",
]


def salad(seed: int, words: int = 40) -> str:
    """Words of random letters."""
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(words))


def shuffled(text: str, seed: int) -> str:
    """The text's own words, their letters in another order."""
    draw = random.Random(seed)
    return " ".join("".join(draw.sample(word, len(word))) for word in text.lower().split()) + " "


def jumping(seed: int, words: int = 40) -> str:
    """Words of many scripts among English ones, as tokens drawn at random are."""
    draw = random.Random(seed)
    return " ".join(
        draw.choice(STRAY if draw.random() < 0.6 else ["rain", "ition", "Adv"]) for _ in range(words)
    )


def watch(
    text: str, language: str | None, pieces: list[str] | None = None
) -> tuple[list[Symptom], TextSegmenter]:
    """What the detector finds in a text that ended by itself."""
    feed = TextSegmenter()
    detector = GibberishDetector(DetectorSpec(language=language), feed)
    for piece in pieces if pieces is not None else [token.text for token in text_tokens(text)]:
        token = Token(piece)
        feed.update(token)
        detector.update(token)
    detector.finish("stop")
    assert detector.open_from is None
    return detector.symptoms(), feed


def where(symptom: Symptom, feed: TextSegmenter) -> int:
    """The character at which a symptom begins."""
    return next(i for i in range(feed.chars) if feed.token_at(i) == symptom.onset)


@pytest.mark.slow
@pytest.mark.parametrize("language", PROSE)
@pytest.mark.parametrize("kind", ["salad", "shuffled", "jumping"])
def test_gibberish_is_found_where_it_begins(language: str, kind: str) -> None:
    """Letter salad, shuffled words and script jumps: onset within ten words, alarm within some dozens."""
    healthy = PROSE[language]
    text = {"salad": salad(1), "shuffled": shuffled(PROSE[language] * 2, 1), "jumping": jumping(1)}[kind]
    symptoms, feed = watch(f"{healthy} {text}", language)
    assert symptoms
    symptom = symptoms[0]
    assert symptom.kind is SymptomKind.GIBBERISH
    assert symptom.confirmed
    start = len(healthy) + 1
    assert start - 60 <= where(symptom, feed) <= start + 60
    assert symptom.alarm - feed.token_at(start) <= 60


@pytest.mark.parametrize("language", PROSE)
def test_it_needs_no_wanted_language(language: str) -> None:
    """`scan` often does not know the language: prose is silent all the same, salad is found."""
    assert watch(PROSE[language] * 3, None)[0] == []
    assert watch(PROSE[language] + " " + salad(2), None)[0]


ROMANISED = {
    "Hindi": (
        "Dekho bhai, sabse pehle aapko apna laptop restart karna chahiye. Uske baad settings mein "
        "jaakar network option select karo aur apna wifi password dobara daalo. Agar phir bhi "
        "internet nahi chal raha hai toh router ko band karke paanch minute baad chalu karo. Mujhe "
        "lagta hai ki problem driver ki wajah se ho rahi hai, isliye usko update karna zaroori hai. "
        "Agar koi aur dikkat aaye toh mujhe zaroor batana, main aapki madad karunga."
    ),
    "Tamil": (
        "Mudhalla unga computer ah restart pannunga. Adhuku apram settings ku poi network ah select "
        "panni password ah marubadiyum podunga. Innum velai seiyala na router ah anju nimisham off "
        "panni vechutu apram on pannunga. Enaku theriyuradhu pazhaya program dhaan problem, "
        "adhanaala adha update panradhu romba mukkiyam."
    ),
    "Telugu": (
        "Mundu mee computer ni malli start cheyandi. Taruvata settings ki velli network ni "
        "enchukoni password malli ivvandi. Inka pani cheyakapothe router ni aidu nimishalu off "
        "chesi tarvata on cheyandi. Naaku telisi paata program valla samasya vastundi, anduke danni "
        "update cheyadam chala mukhyam."
    ),
    "Punjabi": (
        "Sab ton pehlan apna computer dubara chalao. Us ton baad settings vich jaa ke network chuno "
        "te password dubara pao. Je hale vi nahi chalda tan router nu panj mint layi band karo te "
        "pher chalao. Mainu lagda hai ki purane program karke eh samasya aa rahi hai, is layi usnu "
        "update karna bahut zaroori hai."
    ),
}


@pytest.mark.parametrize("name", ROMANISED)
@pytest.mark.parametrize("language", [None, "hi"])
def test_a_language_written_in_latin_letters_is_no_gibberish(name: str, language: str | None) -> None:
    """Most chats in India are written so: no list here has its words, and they recur as in any prose."""
    assert watch(ROMANISED[name], language)[0] == []


def test_a_heap_of_words_of_many_languages_is_gibberish() -> None:
    """Each word is a word, but no language has the sentence."""
    heap = (
        "kitchen ventana wszystko Himmel parola pencere jardim rumah bicycle fenster scherzo pomme "
        "dokument "
        "silla windmill forchetta abwaschen mundur lampada okno pequeno besar stairs feuille tangan "
        "zeit cane "
        "biblioteka schnell ladder acqua manzana kalem voiture thunder sepeda ordinateur wieczór"
    )
    symptoms, feed = watch(f"{PROSE['en']} {heap}", "en")
    assert [s.kind for s in symptoms] == [SymptomKind.GIBBERISH]
    assert abs(where(symptoms[0], feed) - len(PROSE["en"])) <= 60


def test_a_wrong_decoding_is_gibberish() -> None:
    """Mojibake and replacement characters by the dozen; one cut character at the end is a cut answer."""
    broken = (PROSE["vi"]).encode().decode("latin-1")
    assert watch(f"{PROSE['vi']} {broken}", "vi")[0]
    assert watch(PROSE["vi"] + " Xin ch\ufffd\ufffd", "vi")[0] == []


@pytest.mark.parametrize(
    "form",
    [
        "<|reserved_special_token_{}|>",
        "<unused{}>",
        "<extra_id_{}> ",
        "[PAD{}]",
        "<SPECIAL_{}>",
        "<0xE{:.1}>",
    ],
)
def test_tokens_of_no_text_are_gibberish(form: str) -> None:
    """What a model writes whose vocabulary has more places than it was taught, with `skip_special_tokens`
    off: ever other ones, so that no loop is there. A page that explains them is none."""
    rng = random.Random(5)
    flood = "".join(form.format(str(rng.randint(0, 247))) for _ in range(60))
    assert watch(f"{PROSE['en']} {flood}", "en")[0]
    few = " ".join(
        f"The model has {form.format('1')}, which stands for nothing. {PROSE['en']}" for _ in range(3)
    )
    assert watch(few, "en")[0] == []


BLOCK = "```python\ndef area(width, height):\n    return width * height\n\n"


@pytest.mark.parametrize("end", ["", "\n```\n\nThat is all.\n"])
@pytest.mark.parametrize("kind", ["scripts", "reserved", "broken", "letters", "pieces"])
def test_tokens_drawn_at_random_are_gibberish_in_code_too(kind: str, end: str) -> None:
    """What destroyed logits write in a block of code, which an answer that fails never closes: it was
    healthy, and T ended with the cap."""
    rng = random.Random(11)
    soup = {
        "scripts": jumping(3, words=120),
        "reserved": "".join(f"[control_{rng.randint(1, 700)}] memorial" for _ in range(60)),
        "broken": "".join(rng.choice(["\ufffd", "Ã©", " tonen", "(lambda"]) for _ in range(120)),
        "letters": salad(3, words=160),
        "pieces": fragments(PROSE["it"] + PROSE["de"] + PROSE["tr"], 3, 300),
    }
    text = f"{PROSE['en']}\n\n{BLOCK}"
    [found], feed = watch(f"{text}{soup[kind]}{end}", "en")
    assert found.kind is SymptomKind.GIBBERISH
    assert len(text) - 40 <= where(found, feed) <= len(text) + 120


def test_code_may_hold_many_scripts_and_tokens() -> None:
    """Tables of languages and of a tokenizer's own tokens."""
    greetings = ["Привет", "こんにちは", "안녕하세요", "مرحبا", "नमस्ते", "Γειά σου", "שלום", "สวัสดี"]
    table = "".join(f'    "{n:02}": "{word}",\n' for n, word in enumerate(greetings * 4))
    tokens = "".join(f'    "<|reserved_special_token_{n}|>",\n' for n in range(64))
    text = f"{PROSE['en']}\n\n{BLOCK}GREETINGS = {{\n{table}}}\nTOKENS = [\n{tokens}]\n```\n"
    assert watch(text, "en")[0] == []


def test_sense_that_returns_ends_it() -> None:
    """Gibberish between two healthy parts has an end; a second one is another symptom."""
    text = " ".join([PROSE["en"], salad(3), PROSE["en"], PROSE["it"], PROSE["en"], salad(4)])
    first, second = watch(text, "en")[0]
    assert first.end is not None
    assert second.end is None


HEALTHY = {
    "names": "At the table sat Krzysztof Szczepański, Nguyễn Thị Minh Khai, Þórbjörg "
    "Guðmundsdóttir, Xochitl "
    "Tlilxochitl, Mstislav Vsevolodovich and Srđan Hrvoje Krklješ, who had all come by the same train.",
    "latin": "Gallia est omnis divisa in partes tres, quarum unam incolunt Belgae, aliam Aquitani, "
    "tertiam qui "
    "ipsorum lingua Celtae, nostra Galli appellantur. Hi omnes lingua, institutis, legibus inter se "
    "differunt.",
    "chemistry": "The mixture holds 2,4-dinitrophenylhydrazine, (2R,3S)-2-amino-3-hydroxybutanoic acid, "
    "N-acetyl-p-aminophenol, methylchloroisothiazolinone, acetylsalicylic acid and dimethyl sulfoxide.",
    "hex": "The key is 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 and the "
    "text in base64 is\n"
    "VGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZy4gVGhlIHF1aWNrIGJyb3du\n",
    "code": "Run it like this:\n\n```python\ndef qsrt(xs, lt=lambda a, b: a < b):\n    p, *rst = "
    "xs\n    lft = [x for "
    "x in rst if lt(x, p)]\n    rgt = [x for x in rst if not lt(x, p)]\n    return qsrt(lft) + [p] "
    "+ qsrt(rgt)\n```\n",
    "table": "| qty | sku | dims | wght |\n| --- | --- | --- | --- |\n"
    + "| 12 | XQ-77 | 3x4x5 | 1.2 kg |\n" * 12,
    "latex": r"We have \(\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}\) and $\nabla \times "
    r"\mathbf{B} = \mu_0"
    r" \mathbf{J}$, hence $$\oint_{\partial S} \mathbf{B} \cdot d\mathbf{l} = \mu_0 I_{enc}$$ follows.",
    "urls": "See https://xkcd.example/qzx/wvut?kq=zzxqj&mm=ptk or "
    "www.wrzlbrmft.example/htdocs/qqq.xhtml for more.",
    "greetings": "- Hello: Привет, こんにちは, 안녕하세요, مرحبا, नमस्ते, Γειά σου, שלום\n"
    "- Thanks: спасибо, ありがとう, 감사합니다, شكرا, धन्यवाद, ευχαριστώ, תודה\n",
    "terms": "Keywords: machine learning, deep neural networks, gradient descent, feature "
    "engineering, batch "
    "normalization, transfer learning, tokenization, data augmentation, regularization, quantization.",
    "rare letters": "Heat can disrupt your body's natural sleep-wake cycle (circadian rhythm). Lymph, "
    "xylem, pygmy, "
    "rhythm and syzygy are words like any other, though few letters meet so.",
    "programs": "We write an init program in Rust for Devuan that runs without sysvinit or systemd, dbus, "
    "xorg, elogind, xinit, udevd, or systemctl, and whose name is sysx.",
    "hashtags": "Join us for the #golangcourse and get the #coursediscount, then #learntocode with the "
    "#cloudnativeapps crew of the #backenddevelopment team and the #softwareengineers of @gophersunited.",
    "poem": "Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\nAll mimsy were "
    "the borogoves,\n"
    "And the mome raths outgrabe.\n",
    "dialect": "Aye, Ah dinnae ken whit yer oan aboot, pal, but gie us a wee minute an' Ah'll hae a "
    "keek at it, "
    "so Ah will, afore the bairns come hame frae the schuil.",
    "emoji": "Great job! 🎉🎉 Let's go 🚀🔥💪 — see you tomorrow ☕️🥐 and bring the kids 👨‍👩‍👧"
    "‍👦 🐶🐱!!! 🎈🎈🎈",
}


@pytest.mark.parametrize("friend", HEALTHY)
def test_what_only_looks_strange_is_not_gibberish(friend: str) -> None:
    """Names, Latin, chemistry, keys, code, tables, formulas, lists, poems: healthy in an English answer."""
    passage = HEALTHY[friend]
    text = "\n\n".join([PROSE["en"], passage, PROSE["en"], passage])
    assert watch(text, "en")[0] == []
    assert watch(text, None)[0] == []


def fragments(text: str, seed: int, count: int = 100) -> str:
    """Pieces of the text's own words, glued and apart, as a broken tokenizer or model leaves them."""
    draw = random.Random(seed)
    words = [word.strip(".,") for word in text.lower().split() if len(word) > 4]
    pieces = []
    for _ in range(count):
        word = draw.choice(words)
        at = draw.randrange(len(word) - 2)
        pieces.append(draw.choice(["", " "]) + word[at : at + draw.randint(2, 5)])
    return "".join(pieces)


@pytest.mark.parametrize("language", ["de", "en", "it", "tr"])
def test_pieces_of_words_are_gibberish(language: str) -> None:
    """They have the language's letters, but not its words: most are found, from near their beginning on."""
    healthy = PROSE[language] * 2
    hits = 0
    for seed in range(10):
        symptoms, feed = watch(f"{healthy} {fragments(PROSE[language], seed)}", language)
        hits += bool(symptoms)
        assert all(where(symptom, feed) >= len(healthy) - 60 for symptom in symptoms)
    assert hits >= 8


TECHNICAL = {
    "de": "Die Patientin erhielt Acetylsalicylsäure, Metoprololsuccinat, Hydrochlorothiazid und"
    " Levothyroxin; die Echokardiographie zeigte eine linksventrikuläre Hypertrophie und eine"
    " Mitralklappeninsuffizienz. Auf dem Etikett stehen Methylchlorisothiazolinon,"
    " Natriumlaurylethersulfat und Ethylhexylglycerin.",
    "it": "Il drago Xzyrrhathul sorvolò le torri di Qwyndalor, dove la maga Thyssandriel e il nano Grzmotok"
    " lo aspettavano. Nel software abbiamo usato machine learning, feature engineering, batch normalization e"
    " gradient descent, poi il deploy su un cluster Kubernetes con Docker, Prometheus e Grafana.",
    "tr": "Yazılım ekibi machine learning, deep learning ve gradient descent yöntemlerini denedi. Ejderha"
    " Xzyrrhathul, Qwyndalor kulelerinin üzerinden uçarken büyücü Thyssandriel onu bekliyordu."
    " Çekoslovakyalılaştıramadıklarımızdan mısınız, "
    " muvaffakiyetsizleştiricileştiriveremeyebileceklerimizden gibi sözcükler"
    " dilbilgisi kitaplarında örnek olarak verilir.",
    "id": "Pasien menerima asam asetilsalisilat, metoprolol, hidroklorotiazid dan levotiroksin. Bumbu dapur"
    " seperti jinten, ketumbar, kemiri, lengkuas, kencur, kunyit, serai, cengkih, kapulaga dan pala"
    " dihaluskan bersama; lalu sistem dipasang dengan Kubernetes, Docker, Prometheus dan Grafana.",
    "vi": "Bệnh nhân được dùng acid acetylsalicylic, metoprolol, hydrochlorothiazid và levothyroxin. Con rồng"
    " Xzyrrhathul bay qua những ngọn tháp của Qwyndalor. Bún bò Huế, phở, bánh cuốn, nem rán, chả giò, gỏi"
    " cuốn, bánh xèo, cơm tấm và hủ tiếu là những món ăn quen thuộc.",
}


@pytest.mark.parametrize("language", TECHNICAL)
def test_rare_words_are_none(language: str) -> None:
    """Drugs, chemistry, English terms, invented names, dishes and endless Turkish words, in prose whose
    spelling is judged strictly."""
    assert watch("\n\n".join([TECHNICAL[language], PROSE.get(language, "")] * 2), language)[0] == []


def test_another_language_is_drift_and_not_gibberish() -> None:
    """One failure, one symptom: fluent prose of any language is no gibberish, and salad no language."""
    finnish = (
        "Vanha kalastaja palasi satamaan vasta illalla, kun kukaan ei enää odottanut häntä "
        "rannalla. Opettaja "
        "avasi ikkunan ja kuunteli pitkään sateen ääntä talojen katoilla. Lapset juoksivat koiran perässä."
    )
    assert watch(f"{PROSE['en']} {PROSE['it']} {finnish} {PROSE['de']}", "en")[0] == []
    feed = TextSegmenter()
    drift = LanguageDetector(DetectorSpec(language="en"), feed)
    for token in text_tokens(f"{PROSE['en']} {salad(5, 80)}."):
        feed.update(token)
        drift.update(token)
    drift.finish("stop")
    assert [s for s in drift.symptoms() if s.confirmed] == []


@pytest.mark.parametrize(
    "quoted",
    [
        "İnternetten kayıt yaptıktan sonra genellikle okula gitmeye gerek yoktur, çünkü kayıt işlemi "
        "çevrimiçi olarak tamamlanmıştır. Ancak bazı durumlarda üniversiteye gitmeniz gerekebilir.",
        "Trong vùng đất hoang vu và lạnh giá, có một ngôi làng nhỏ bị quên lãng bởi thế giới bên ngoài. Một "
        "mối đe dọa bí ẩn rình rập trong bóng tối xung quanh họ.",
    ],
    ids=["tr", "vi"],
)
@pytest.mark.parametrize("language", ["en", "it"])
def test_quoted_prose_with_few_function_words_is_not_gibberish(language: str, quoted: str) -> None:
    """Turkish has endings and no articles; a second reading knows the language all the same."""
    text = f'{PROSE[language]}\n\n> "{quoted}"\n\n{PROSE[language]}'
    assert watch(text, language)[0] == []


def test_a_suspect_stretch_is_open_until_it_is_settled() -> None:
    """What may be gibberish is not yet known healthy: it holds back what counts as observed."""
    feed = TextSegmenter()
    detector = GibberishDetector(DetectorSpec(language="en"), feed)
    text = f"{PROSE['en']} {salad(6, 5)}."
    for token in text_tokens(text + " The"):
        feed.update(token)
        detector.update(token)
    assert detector.symptoms() == []
    assert detector.open_from is not None
    assert detector.open_from <= feed.token_at(len(PROSE["en"]) + 1) + 3


PARTS = st.lists(
    st.one_of(
        st.sampled_from(
            [*PROSE.values(), *HEALTHY.values(), jumping(8), salad(9), "。" * 3, "\n\n", "a" * 300]
        ),
        st.text("abcxyz .,\n中да`", max_size=60),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=20, deadline=None)
@given(PARTS.map(" ".join), st.lists(st.integers(1, 50), min_size=1, max_size=5))
@example(PROSE["en"] + " " + salad(10, 60), [1])
def test_the_cut_into_tokens_does_not_matter(text: str, sizes: list[int]) -> None:
    """Online and offline agree: the same stretches of the same characters, however the text arrives."""
    pieces, at, turn = [], 0, 0
    while at < len(text):
        pieces.append(text[at : at + sizes[turn % len(sizes)]])
        at, turn = at + len(pieces[-1]), turn + 1
    whole, one = watch(text, "en", list(text))
    parts, other = watch(text, "en", pieces)
    assert [s.detail for s in whole] == [s.detail for s in parts]
    for left, right in zip(whole, parts, strict=True):
        assert other.token_at(where(left, one)) == right.onset
