"""Prose in many languages, and what the detector of language drift finds in a mix of it."""

from __future__ import annotations

import re

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.language.online import LanguageDetector
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, Token

PROSE = {
    "it": [
        "Il vecchio pescatore tornò al porto quando ormai era notte e nessuno lo aspettava più.",
        "Nella piazza del paese i bambini correvano dietro a un cane che aveva perso il padrone.",
        "La maestra aprì la finestra e ascoltò a lungo il rumore della pioggia sui tetti delle case.",
        "Quella mattina il pane era finito presto e la fila davanti al forno non si muoveva.",
        "Sua sorella gli aveva scritto una lettera che lui non trovò mai il coraggio di leggere.",
        "Dopo la festa rimasero soltanto le sedie vuote e qualche bicchiere dimenticato sui tavoli.",
    ],
    "en": [
        "The old fisherman came back to the harbour when it was already dark and nobody was waiting.",
        "In the village square the children were running after a dog that had lost its owner.",
        "The teacher opened the window and listened for a long time to the rain on the roofs.",
        "That morning the bread had run out early and the queue outside the bakery did not move.",
        "His sister had written him a letter that he never found the courage to read.",
        "After the party only the empty chairs were left and a few glasses forgotten on the tables.",
    ],
    "fr": [
        "Le vieux pêcheur revint au port quand il faisait déjà nuit et que personne ne l'attendait plus.",
        "Sur la place du village les enfants couraient derrière un chien qui avait perdu son maître.",
        "La maîtresse ouvrit la fenêtre et écouta longtemps le bruit de la pluie sur les toits.",
        "Ce matin-là le pain avait manqué de bonne heure et la file devant la boulangerie n'avançait pas.",
        "Sa sœur lui avait écrit une lettre qu'il ne trouva jamais le courage de lire jusqu'au bout.",
        "Après la fête il ne restait que les chaises vides et quelques verres oubliés sur les tables.",
    ],
}


def tokens(text: str) -> list[str]:
    """Pieces of about the size of a model's tokens."""
    return re.findall(r"\s*\w{1,5}|\s*\W", text)


def watch(
    text: str, language: str | None, reason: str | None = "stop"
) -> tuple[LanguageDetector, TextSegmenter]:
    """A detector that saw the whole text."""
    feed = TextSegmenter()
    detector = LanguageDetector(DetectorSpec(language=language), feed)
    for piece in tokens(text):
        token = Token(piece)
        feed.update(token)
        detector.update(token)
    detector.finish(reason)
    return detector, feed


def confirmed(text: str, language: str) -> list[Symptom]:
    """The drifts of a text that ended by itself."""
    return [symptom for symptom in watch(text, language)[0].symptoms() if symptom.confirmed]


def token_of(text: str, part: str) -> int:
    """1-based token that holds the first character of `part`."""
    at, seen = text.index(part), 0
    for number, piece in enumerate(tokens(text), 1):
        seen += len(piece)
        if seen > at:
            return number
    raise AssertionError(part)


FIFTEEN = {
    **{code: " ".join(lines[:2]) for code, lines in PROSE.items()},
    "de": "Der alte Fischer kam erst in den Hafen zurück, als es schon dunkel war. Die Lehrerin "
    "öffnete das Fenster und"
    " hörte lange dem Regen auf den Dächern zu.",
    "es": "El viejo pescador volvió al puerto cuando ya era de noche y nadie lo esperaba. La "
    "maestra abrió la ventana"
    " y escuchó durante mucho tiempo el ruido de la lluvia sobre los tejados.",
    "pt": "O velho pescador voltou ao porto quando já era noite e ninguém o esperava mais. A "
    "professora abriu a janela"
    " e ouviu durante muito tempo o barulho da chuva nos telhados das casas.",
    "id": "Nelayan tua itu kembali ke pelabuhan ketika hari sudah gelap dan tidak ada lagi yang "
    "menunggunya. Ibu guru"
    " membuka jendela dan mendengarkan suara hujan di atas atap rumah.",
    "tr": "Yaşlı balıkçı limana döndüğünde hava çoktan kararmıştı ve onu bekleyen kimse kalmamıştı. "
    "Öğretmen pencereyi"
    " açtı ve uzun süre çatılara yağan yağmurun sesini dinledi.",
    "vi": "Ông lão đánh cá trở về bến cảng khi trời đã tối và không còn ai đợi ông nữa. Cô giáo mở "
    "cửa sổ và lắng nghe"
    " rất lâu tiếng mưa rơi trên những mái nhà.",
    "ru": "Старый рыбак вернулся в гавань, когда уже стемнело и никто его больше не ждал. "
    "Учительница открыла окно и"
    " долго слушала, как дождь стучит по крышам.",
    "ar": "عاد الصياد العجوز إلى الميناء بعد أن حل الظلام ولم يكن هناك أحد في انتظاره. فتحت المعلمة "
    "النافذة واستمعت"
    " طويلا إلى صوت المطر على أسطح المنازل.",
    "hi": "बूढ़ा मछुआरा अंधेरा होने के बाद बंदरगाह पर लौटा और वहाँ कोई उसका इंतज़ार नहीं कर रहा था। "
    "शिक्षिका ने खिड़की खोली और देर तक"
    " छतों पर गिरती बारिश की आवाज़ सुनी।",
    "ko": "늙은 어부는 날이 어두워진 뒤에야 항구로 돌아왔고 그를 기다리는 사람은 아무도 없었다. 선생"
    "님은 창문을 열고 지붕 위에 떨어지는 빗소리를 오랫동안 들었다.",
    "ja": "年老いた漁師は暗くなってからようやく港に戻ったが、もう誰も彼を待っていなかった。先生は窓"
    "を開けて、屋根に降る雨の音を長い間聞いていた。",
    "zh": "老渔夫在天黑之后才回到港口，那时已经没有人在等他了。老师打开窗户，听了很久雨点落在屋顶上"
    "的声音，孩子们追着一只狗跑。",
}
