"""Healthy sentences in languages other than the requested one."""

from __future__ import annotations

ITALIAN = (
    "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano sul molo. "
    "Nessuno ricordava un inverno così lungo, e il vecchio guardiano accendeva ogni sera la lampada. "
    "Poi arrivò una lettera che nessuno sapeva leggere, e tutti rimasero in silenzio davanti alla porta. "
)
GERMAN = (
    "Der alte Wärter stieg die Treppe hinauf und sah, dass das Licht nicht mehr brannte. "
    "Niemand wusste, warum die Schiffe an diesem Abend nicht in den Hafen gekommen waren. "
)
RUSSIAN = "Старый смотритель поднялся по лестнице и увидел, что свет больше не горит. Никто не знал почему. "
