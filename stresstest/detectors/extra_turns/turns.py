"""What proves that turns are extra: the user's with the model's after it, or the model's alone."""

from __future__ import annotations

from dataclasses import dataclass

NEEDED = {"template": 2, "heading": 2, "role": 3, "label": 3, "order": 3}
"""Points that prove it, by the kind of marks. A turn of the user with the model's after it is one point; two
where an end of turn or a system's message stands before it, or where it is headed by hashes."""
NEEDED_ALONE = {"template": 2, "heading": 2, "role": 2}
"""Points where the model's turns follow one another. One that begins directly behind the text is two points,
each other one."""


@dataclass(slots=True)
class Turns:
    """What was seen of one kind of marks. first: character of the first. open: points of the user's open
    turn. alone_first, alone: the same of model's turns that no user's turn stands before."""

    kind: str
    first: int | None = None
    points: int = 0
    open: int = 0
    after_system: bool = False
    alone_first: int | None = None
    alone: int = 0

    def system(self, at: int) -> None:
        self._begin(at)
        self.after_system = True

    def user(self, at: int, points: int) -> None:
        self._begin(at)
        self.open = max(points, 2 if self.after_system else 0)

    def model(self) -> None:
        """The model's turn after the user's."""
        self.points += self.open
        self.open = 0
        self.after_system = False

    def model_alone(self, at: int, points: int) -> None:
        if self.alone_first is None:
            self.alone_first = at
        self.alone += points

    def _begin(self, at: int) -> None:
        if self.first is None:
            self.first = at

    @property
    def begun(self) -> int | None:
        """Where what may prove to be extra begins."""
        return min((at for at in (self.first, self.alone_first) if at is not None), default=None)

    @property
    def proven(self) -> int | None:
        """Character at which the extra turns begin, once they are proven."""
        if self.points >= NEEDED[self.kind]:
            return self.first
        if self.alone >= NEEDED_ALONE.get(self.kind, self.alone + 1):
            return self.alone_first
        return None
