"""Languages that share their script, and languages that the identifiers do not know."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.names import read_language_name
from stresstest.detectors.languages.catalog import normalize_language
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.model import GenerationVerdict, SymptomKind

TEXTS = {
    "ru": "Комитет собрался во вторник, чтобы обсудить бюджет на следующий год. Несколько членов выразили "
    "обеспокоенность ростом расходов, и председатель пообещал подготовить подробный отчёт к марту. После "
    "короткого перерыва обсуждение перешло к вопросам персонала. Все были очень уставшими, но решили "
    "продолжить работу до вечера. Когда заседание закончилось, на улице уже было темно.",
    "uk": "Комітет зібрався у вівторок, щоб обговорити бюджет на наступний рік. Кілька членів висловили "
    "занепокоєння зростанням витрат, і голова пообіцяв підготувати докладний звіт до березня. Після короткої "
    "перерви обговорення перейшло до питань персоналу. Усі були дуже втомлені, але вирішили продовжити "
    "роботу до вечора. Коли засідання закінчилося, надворі вже було темно.",
    "bg": "Комисията се събра във вторник, за да обсъди бюджета за следващата година. Няколко членове "
    "изразиха загриженост относно нарастващите разходи, а председателят обеща подробен доклад до март. След "
    "кратка почивка дискусията премина към въпросите на персонала. Всички бяха много уморени, но решиха да "
    "продължат до вечерта. Когато заседанието свърши, навън вече беше тъмно.",
    "sr": "Одбор се састао у уторак да би расправљао о буџету за наредну годину. Неколико чланова "
    "изразило је "
    "забринутост због раста трошкова, а председник је обећао подробан извештај до марта. После кратке паузе "
    "расправа је прешла на питања особља. Сви су били веома уморни, али су одлучили да наставе до вечери. "
    "Када је седница завршена, напољу је већ био мрак.",
    "ar": "اجتمعت اللجنة يوم الثلاثاء لمناقشة ميزانية العام المقبل. وأعرب عدد من الأعضاء عن قلقهم إزاء "
    "ارتفاع التكاليف، ووعد الرئيس بتقديم تقرير مفصل بحلول شهر مارس. وبعد استراحة قصيرة انتقل النقاش إلى شؤون "
    "الموظفين. كان الجميع متعبين جدا، لكنهم قرروا مواصلة العمل حتى المساء.",
    "fa": "کمیته روز سه‌شنبه تشکیل جلسه داد تا درباره بودجه سال آینده گفتگو کند. چند تن از اعضا نسبت به "
    "افزایش هزینه‌ها ابراز نگرانی کردند و رئیس قول داد تا ماه مارس گزارش مفصلی ارائه دهد. پس از استراحتی "
    "کوتاه، بحث به مسائل کارکنان کشیده شد. همه بسیار خسته بودند، اما تصمیم گرفتند تا شب به کار ادامه دهند.",
    "ur": "کمیٹی کا اجلاس منگل کو اگلے سال کے بجٹ پر بحث کے لیے ہوا۔ کئی ارکان نے بڑھتے ہوئے اخراجات پر "
    "تشویش کا اظہار کیا، اور صدر نے مارچ تک تفصیلی رپورٹ دینے کا وعدہ کیا۔ مختصر وقفے کے بعد بحث ملازمین کے "
    "معاملات پر آ گئی۔ سب بہت تھکے ہوئے تھے، لیکن انہوں نے شام تک کام جاری رکھنے کا فیصلہ کیا۔",
    "hi": "समिति ने मंगलवार को अगले वर्ष के बजट पर चर्चा करने के लिए बैठक की। कई सदस्यों ने बढ़ती लागत "
    "पर चिंता "
    "व्यक्त की, और अध्यक्ष ने मार्च तक विस्तृत रिपोर्ट देने का वादा किया। थोड़े विराम के बाद चर्चा "
    "कर्मचारियों के "
    "मामलों पर आ गई। सभी बहुत थके हुए थे, लेकिन उन्होंने शाम तक काम जारी रखने का फैसला किया।",
    "mr": "समितीने पुढील वर्षाच्या अर्थसंकल्पावर चर्चा करण्यासाठी मंगळवारी बैठक घेतली. अनेक "
    "सदस्यांनी वाढत्या "
    "खर्चाबद्दल चिंता व्यक्त केली आणि अध्यक्षांनी मार्चपर्यंत सविस्तर अहवाल देण्याचे आश्वासन दिले. थोड्या "
    "विश्रांतीनंतर चर्चा कर्मचाऱ्यांच्या प्रश्नांकडे वळली. सर्वजण खूप थकले होते, पण त्यांनी काम सुरू ठेवले.",
    "be": "Камітэт сабраўся ў аўторак, каб абмеркаваць бюджэт на наступны год. Некалькі членаў выказалі "
    "занепакоенасць ростам выдаткаў, і старшыня паабяцаў падрыхтаваць падрабязную справаздачу да сакавіка. "
    "Пасля кароткага перапынку абмеркаванне перайшло да пытанняў персаналу. Усе былі вельмі стомленыя.",
    "bs": "Odbor se sastao u utorak da bi raspravljao o budžetu za narednu godinu. Nekoliko članova "
    "izrazilo je "
    "zabrinutost zbog rasta troškova, a predsjednik je obećao detaljan izvještaj do marta. Nakon "
    "kratke pauze "
    "rasprava je prešla na pitanja osoblja. Svi su bili veoma umorni, ali su odlučili da nastave do večeri.",
    "eu": "Batzordea asteartean bildu zen hurrengo urteko aurrekontua eztabaidatzeko. Kide batzuek kezka "
    "agertu zuten gastuen igoeragatik, eta presidenteak martxorako txosten zehatza agindu zuen. Atsedenaldi "
    "labur baten ondoren, eztabaida langileen gaietara pasatu zen. Denak oso nekatuta zeuden.",
    "gl": "O comité reuniuse o martes para discutir o orzamento do vindeiro ano. Varios membros expresaron a "
    "súa preocupación polo aumento dos custos, e o presidente prometeu un informe detallado para marzo. "
    "Despois dunha breve pausa, a discusión pasou aos asuntos do persoal. Todos estaban moi cansos.",
    "ms": "Jawatankuasa itu bermesyuarat pada hari Selasa untuk membincangkan belanjawan tahun "
    "hadapan. Beberapa "
    "ahli menyatakan kebimbangan terhadap kenaikan kos, dan pengerusi berjanji untuk menyediakan laporan "
    "terperinci menjelang bulan Mac. Selepas rehat sebentar, perbincangan beralih kepada hal kakitangan.",
    "hr": "Odbor se sastao u utorak kako bi raspravio proračun za iduću godinu. Nekoliko članova izrazilo je "
    "zabrinutost zbog rastućih troškova, a predsjednik je obećao podrobno izvješće do ožujka. Nakon kratke "
    "stanke rasprava je prešla na pitanja osoblja. Svi su bili vrlo umorni, ali su odlučili nastaviti.",
}
SERBIAN_IN_LATIN_LETTERS = (
    "Odbor se sastao u utorak da bi raspravljao o budžetu za narednu godinu. Nekoliko članova izrazilo je "
    "zabrinutost zbog rasta troškova, a predsednik je obećao detaljan izveštaj do marta. Posle kratke pauze "
    "rasprava je prešla na pitanja osoblja. Svi su bili veoma umorni, ali su odlučili da nastave do večeri."
)
GROUPS = (("ru", "uk", "bg", "sr"), ("ar", "fa", "ur"), ("hi", "mr"))
PAIRS = [(wanted, got) for group in GROUPS for wanted in group for got in group if wanted != got]


@pytest.mark.slow
@pytest.mark.parametrize(("wanted", "got"), PAIRS)
def test_a_relative_in_the_same_script_is_another_language(wanted: str, got: str) -> None:
    """Letters alone do not tell Ukrainian from Russian, nor Persian from Arabic: whole answers in the wrong
    one passed as healthy."""
    assert detect_recorded(TEXTS[got], DetectorSpec(wanted), "stop").symptom is SymptomKind.LANGUAGE_DRIFT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text"),
    [*TEXTS.items(), ("sr", SERBIAN_IN_LATIN_LETTERS)],
    ids=[*TEXTS, "sr in Latin letters"],
)
@pytest.mark.parametrize("detect", [detect_text, detect_recorded])
def test_every_language_is_itself(language: str, text: str, detect: Callable[..., GenerationVerdict]) -> None:
    """Also Malay, Bosnian, Basque and Serbian in Latin letters, of which langdetect has no profile: their
    words were letters without sense to the words of English."""
    assert detect(text, DetectorSpec(language), "stop").onset is None


RARE = {
    "kk": "Комитет сейсенбіде келесі жылдың бюджетін талқылау үшін жиналды. Бірнеше мүше шығындардың өсуіне "
    "алаңдаушылық білдірді, ал төраға наурызға дейін толық есеп беруге уәде етті. Қысқа үзілістен кейін "
    "талқылау қызметкерлер мәселесіне көшті. Барлығы қатты шаршаған еді, бірақ жалғастыруды шешті.",
    "az": "Komitə çərşənbə axşamı gələn ilin büdcəsini müzakirə etmək üçün toplandı. Bir neçə üzv xərclərin "
    "artmasından narahatlığını bildirdi və sədr mart ayına qədər ətraflı hesabat verəcəyinə söz verdi. Qısa "
    "fasilədən sonra müzakirə işçi məsələlərinə keçdi. Hamı çox yorğun idi, amma davam etməyi qərara aldı.",
    "is": "Nefndin kom saman á þriðjudag til að ræða fjárhagsáætlun næsta árs. Nokkrir nefndarmenn lýstu "
    "áhyggjum af hækkandi kostnaði og formaðurinn lofaði ítarlegri skýrslu fyrir mars. Eftir stutt hlé "
    "snerist umræðan að starfsmannamálum. Allir voru mjög þreyttir, en þeir ákváðu að halda áfram.",
    "ml": "അടുത്ത വർഷത്തെ ബജറ്റ് ചർച്ച ചെയ്യാൻ കമ്മിറ്റി ചൊവ്വാഴ്ച യോഗം ചേർന്നു. വർധിച്ചുവരുന്ന ചെലവുകളെക്കുറിച്ച് നിരവധി "
    "അംഗങ്ങൾ ആശങ്ക പ്രകടിപ്പിച്ചു, മാർച്ചോടെ വിശദമായ റിപ്പോർട്ട് നൽകാമെന്ന് അധ്യക്ഷൻ വാഗ്ദാനം ചെയ്തു.",
}


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text"), RARE.items(), ids=RARE)
def test_a_language_that_nothing_here_describes_is_no_gibberish(language: str, text: str) -> None:
    """Stated or not: it was drift from itself, or letters that make no words of the languages known here."""
    for wanted in (language, None):
        assert detect_recorded(text, DetectorSpec(wanted), "stop").onset is None


def test_mixed_letters_of_it_are_gibberish() -> None:
    """Where no language is stated, as before."""
    rng = random.Random(1)
    mixed = re.sub(r"\w+", lambda word: "".join(rng.sample(word[0], len(word[0]))), RARE["az"].lower())
    assert detect_recorded(mixed, DetectorSpec(None), "length").symptom is SymptomKind.GIBBERISH


@pytest.mark.parametrize("stated", ["de", "de-AT", "German", " deutsch ", "deu", "deu_Latn", "ger"])
def test_what_records_call_a_language(stated: str) -> None:
    """By code, tag or name."""
    found = read_language_name(stated)
    assert found is not None
    assert normalize_language(found) == "de"


def test_a_list_of_names_is_in_its_language() -> None:
    """Without a word of grammar the identifiers guess among relatives; the letters are all its own."""
    places = (
        "Австралия — континент\nМексика — страна\nМехико — город\nАнтарктида — континент\nСингапур — страна"
    )
    assert detect_recorded(places, DetectorSpec("ru"), "stop").onset is None
