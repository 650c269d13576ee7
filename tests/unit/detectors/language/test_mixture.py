"""Sentences that go over to another script: half of each is foreign, and no sentence is."""

from __future__ import annotations

import random

import pytest

import stresstest
from tests.support.stories import sentence, story

CHINESE = [
    "而且没有人记得那条街的名字",
    "因为那天晚上的风实在太大了",
    "孩子们当时正沿着河边奔跑",
    "后来我们决定早一点出发",
    "教授解释了他选择的理由",
    "花园里已经开满了白色的花",
    "大家都坐着谈论过去的事情",
    "那列旧火车从来不准时到达",
    "她带着一个装满旧书的袋子",
    "没有对邻居说一句话就走了",
    "老船长在码头上等了一整天",
    "面包店的灯光一直亮到深夜",
    "图书馆里只剩下几张旧桌子",
    "雨停了以后街上又热闹起来",
]
RUSSIAN = [
    "и никто уже не помнил названия улицы",
    "потому что в тот вечер дул сильный ветер",
    "пока дети бегали вдоль берега реки",
    "где женщина закрыла все окна в доме",
    "и потом мы решили выехать очень рано",
    "когда учитель объяснил причины выбора",
    "но сад уже был покрыт белыми цветами",
    "поэтому все остались говорить о прошлом",
    "а старый поезд никогда не приходил вовремя",
    "которая несла сумку со старыми книгами",
    "не сказав соседке ни единого слова",
    "после того как выпили кофе на площади",
]


def mixed(parts: list[str], form: str = "{} {}.", count: int = 12) -> str:
    rng = random.Random(4)
    begins = (" ".join(sentence(rng).split()[:11]).rstrip(",.") for _ in range(count))
    return " ".join(form.format(begin, parts[n % len(parts)]) for n, begin in enumerate(begins))


@pytest.mark.parametrize("parts", [CHINESE, RUSSIAN], ids=["Chinese", "Russian"])
def test_a_sentence_after_the_other_that_changes_scripts_is_a_drift(parts: list[str]) -> None:
    """English was the majority of each, so that none was foreign: a gate passed at 14 %."""
    before = story(2)
    found = stresstest.detect(f"{before} {mixed(parts)}", language="en")
    assert found.symptom == "language_drift"
    assert found.onset_char is not None
    assert abs(found.onset_char - len(before)) < 90
    assert not found.recovered


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        (mixed(CHINESE), "请写一个关于渔村的故事。"),
        (mixed(CHINESE, "{} ({})."), "Tell a story."),
        (mixed(CHINESE, '{} "{}".'), "Tell a story."),
        (mixed(["北京", "上海", "广州"], "{} in {}."), "Tell a story."),
        (" ".join([mixed(CHINESE[:4], count=4), story(6, seed=2), mixed(CHINESE[4:], count=1)]), "Tell it."),
    ],
    ids=["asked in Chinese", "in brackets", "quoted", "names", "a few sentences"],
)
def test_what_may_stand_in_another_script_is_no_drift(text: str, prompt: str) -> None:
    """Names, quotations, translations, and whatever the prompt requests."""
    assert stresstest.detect(f"{story(2)} {text}", language="en", prompt=prompt).symptom is None


def test_a_language_that_the_prompt_names_may_be_mixed_in() -> None:
    """Where nobody says what was wanted."""
    text = f"{story(2)} {mixed(CHINESE)}"
    for prompt, symptom in (("A story with Chinese words in it", None), ("A story", "language_drift")):
        assert stresstest.detect(text, prompt=prompt).symptom == symptom
