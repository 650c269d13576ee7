"""What repeats because it must: songs that count down, plans, answer keys, logs, lists, prayers."""

from __future__ import annotations

import random

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_text
from stresstest.model import SymptomKind

SUBJECTS = (
    *("Algebra", "Geometry", "Biology", "Chemistry", "History"),
    *("Geography", "Physics", "Literature", "Music", "Art"),
)
EXERCISES = (
    *("push-ups", "squats", "lunges", "planks", "burpees", "sit-ups", "pull-ups", "dips", "jumping jacks"),
    *("mountain climbers", "calf raises", "crunches", "side planks", "leg raises", "wall sits"),
)
CAPITALS = (
    "Afghanistan Kabul, Albania Tirana, Algeria Algiers, Angola Luanda, Argentina Buenos Aires,"
    " Armenia Yerevan, Australia Canberra, Austria Vienna, Azerbaijan Baku, Bahamas Nassau, Bahrain Manama,"
    " Bangladesh Dhaka, Barbados Bridgetown, Belarus Minsk, Belgium Brussels, Belize Belmopan,"
    " Bolivia Sucre, Botswana Gaborone, Bulgaria Sofia, Burundi Gitega, Cameroon Yaoundé, Canada Ottawa,"
    " Chile Santiago, China Beijing, Colombia Bogotá, Comoros Moroni, Croatia Zagreb, Cuba Havana,"
    " Cyprus Nicosia, Czechia Prague, Denmark Copenhagen, Dominica Roseau, Ecuador Quito, Egypt Cairo,"
    " Eritrea Asmara, Estonia Tallinn, Fiji Suva, Finland Helsinki, France Paris, Gabon Libreville,"
    " Germany Berlin, Ghana Accra, Greece Athens, Guyana Georgetown, Honduras Tegucigalpa, Hungary Budapest,"
    " Iceland Reykjavik, India Delhi, Indonesia Jakarta, Iran Tehran, Iraq Baghdad, Italy Rome"
)
SAINTS = (
    "Mary Michael Gabriel Raphael Joseph Peter Paul Andrew James John Thomas Philip Bartholomew Matthew Simon"
    " Matthias Barnabas Luke Mark Stephen Lawrence Vincent Sebastian Cosmas Damian Gregory Ambrose Augustine"
    " Jerome Martin Nicholas Anthony Benedict Bernard Dominic Francis Agatha Lucy Agnes Cecilia Clare Rose"
)
GIFTS = (
    *("a partridge in a pear tree", "two turtle doves", "three French hens", "four calling birds"),
    *("five golden rings", "six geese a-laying", "seven swans a-swimming", "eight maids a-milking"),
    *("nine ladies dancing", "ten lords a-leaping", "eleven pipers piping", "twelve drummers drumming"),
)
DAYS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
PRAYER = (
    "Hail Mary, full of grace, the Lord is with thee; blessed art thou among women, and blessed is the fruit"
    " of thy womb, Jesus. Holy Mary, Mother of God, pray for us sinners, now and at the hour of our death."
    " Amen."
)


def countdown_song() -> str:
    """Ninety-nine bottles, to the last one."""

    def bottles(count: int) -> str:
        return f"{count or 'no more'} bottle{'s' * (count != 1)} of beer"

    return "\n\n".join(
        f"{bottles(n)} on the wall, {bottles(n)}.\n"
        f"Take one down and pass it around, {bottles(n - 1)} on the wall."
        for n in range(99, 0, -1)
    )


def growing_song() -> str:
    """Every verse says all that was said before it, and one thing more."""
    verses = []
    for n, day in enumerate(DAYS.split()):
        given = ",\n".join(reversed(GIFTS[1 : n + 1])) + (",\nand " if n else "") + GIFTS[0]
        verses.append(f"On the {day} day of Christmas my true love gave to me\n{given}.")
    return "\n\n".join(verses)


def study_plan(rng: random.Random) -> str:
    """Thirty days with one timetable and subjects of their own."""
    day = (
        "**Day {}**\n- 8:00–9:00: Review notes on {}\n- 9:00–10:30: Practice problems: {}\n"
        "- 10:30: Short break\n- 10:45–12:00: Read chapter {} of the textbook\n- 12:00–13:00: Lunch\n"
        "- 13:00–14:30: Watch a lecture on {}\n- 14:30–15:30: Flashcards and self-test\n"
        "- 15:30–16:00: Plan for the next day"
    )
    return "\n\n".join(day.format(n, *rng.sample(SUBJECTS, 2), n, rng.choice(SUBJECTS)) for n in range(1, 31))


def workout_plan(rng: random.Random) -> str:
    """Four weeks; the same warm-up and cool-down around other exercises."""
    days = []
    for n in range(1, 29):
        sets = "".join(
            f"- {name.capitalize()}: {rng.randint(2, 4)} sets of {rng.randint(8, 20)} reps\n"
            for name in rng.sample(EXERCISES, 5)
        )
        days.append(f"Day {n}\nWarm-up: 5 minutes of light jogging\n{sets}Cool-down: stretch for 5 minutes\n")
    return "\n".join(days)


def friends(seed: int) -> dict[str, str]:
    """Healthy answers of up to 3,000 words, by name."""
    rng = random.Random(seed)
    weekdays = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    events = (
        "GET /index.html 200",
        "GET /icon 404",
        "POST /login 302",
        "worker 3 started",
        "retrying in 5 s",
    )
    countries = [entry.strip().split(" ", 1) for entry in CAPITALS.split(",")]
    return {
        "a song that counts down": countdown_song(),
        "a song that grows": growing_song(),
        "a study plan": study_plan(rng),
        "a workout plan": workout_plan(rng),
        "a timetable": "\n\n".join(
            f"{day}, week {week}:\n"
            + "\n".join(f"{hour}:00 {rng.choice(SUBJECTS)}" for hour in (8, 9, 10, 11, 13, 14))
            + "\n15:00 Sports"
            for week in range(1, 5)
            for day in weekdays
        ),
        "labels, one a line": "\n".join(rng.choice(("yes", "no")) for _ in range(150)),
        "labels in a row": ", ".join(rng.choice(("positive", "negative", "neutral")) for _ in range(150)),
        "numbered labels": "\n".join(f"{n}. {rng.choice(('Ja', 'Nein'))}" for n in range(1, 151)),
        "a log": "\n".join(
            f"2026-03-01 12:{n // 60:02}:{n % 60:02},{rng.randint(0, 999):03} INFO server.http: "
            f"{rng.choice(events)}"
            for n in range(150)
        ),
        "countries and capitals": "\n".join(f"{n}. {c} – {t}" for n, (c, t) in enumerate(countries, 1)),
        "capitals in sentences": "\n".join(f"The capital of {c} is {t}." for c, t in countries),
        "a multiplication table": "\n\n".join(
            f"Table of {a}\n" + "\n".join(f"{a} x {b} = {a * b}" for b in range(1, 13)) for a in range(1, 13)
        ),
        "a multiplication table in words": "\n".join(
            f"{a} multiplied by {b} is equal to {a * b}." for a in range(1, 13) for b in range(1, 13)
        ),
        "a litany": "\n".join(f"Saint {name}, pray for us." for name in SAINTS.split()),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(friends(1)))
@pytest.mark.parametrize(("seed", "language"), [(1, "en"), (2, None)])
def test_what_repeats_by_its_nature_is_healthy(name: str, seed: int, language: str | None) -> None:
    """Each says something new in every line, even if only how far it has come: no prompt needs to say so."""
    verdict = detect_text(friends(seed)[name], DetectorSpec(language=language), "stop")
    assert verdict.onset is None


def test_a_prayer_that_is_said_ten_times_is_a_loop() -> None:
    """Also where a rosary was asked for: a word that may name one ("Rosario", the city) made all loops
    healthy, and who asks for a decade can say so."""
    decade = "\n\n".join([PRAYER] * 10)
    asked = DetectorSpec(language="en", prompt_text="Write out one decade of the rosary, in full.")
    counted = DetectorSpec(language="en", prompt_text=f'Write this 10 times: "{PRAYER}"')
    assert detect_text(decade, asked, "stop").symptom is SymptomKind.LOOP
    assert detect_text(decade, counted, "stop").onset is None


def test_endless_labels_are_a_flood() -> None:
    """A list of labels has a generous bound, not none."""
    rng = random.Random(3)
    endless = "\n".join(rng.choice(("yes", "no")) for _ in range(900))
    assert detect_text(endless, DetectorSpec(language="en"), "length").symptom is SymptomKind.FLOODING
    assert detect_text(endless.replace("\n", " ")[:400], DetectorSpec(language="en"), "length").onset == 1
