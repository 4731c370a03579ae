"""States of a simulator that are kept, and where they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vi_contact.errors import ArrayError
from vi_contact.robot.parts import Array, Record
from vi_contact.simulation.hybrid import Node


@dataclass(frozen=True)
class Setting:
    """What shapes the numbers of a state: a snapshot fits where it is the same.

    Time step, gravity and friction do not: a configuration and its momentum go on with any.
    """

    robot: str
    joints: tuple[str, ...]
    contacts: tuple[str, ...]
    """With the ground."""
    ground: bool
    pairs: tuple[str, ...]
    """Links that may meet each other or obstacles."""
    contact: str
    """The contact law."""
    events: bool
    solver: str

    def check(self, there: Setting) -> None:
        """ArrayError that says in what a snapshot of another simulator differs."""
        other_contacts = self.ground and there.ground and self.contacts != there.contacts
        if self.joints != there.joints or other_contacts:
            raise ArrayError(
                "snapshot", f"it is of another robot: '{there.robot}', here is '{self.robot}'"
            )
        differences = [
            f"{there_says}, here {here_says}"
            for there_says, here_says in zip(there._words, self._words, strict=True)
            if there_says != here_says
        ]
        if differences:
            raise ArrayError(
                "snapshot",
                f"it is of the same robot in another kind of simulator: {'; '.join(differences)}. "
                "Make both alike, or start from the state alone: sim.reset(state.q, state.v)",
            )

    @property
    def _words(self) -> tuple[str, ...]:
        return (
            "with a ground" if self.ground else "ground=None",
            f"links that may meet {_listed(self.pairs)}",
            f"contact={self.contact}",
            "with events" if self.events else "no events",
            f"solver={self.solver!r}",
        )


@dataclass(frozen=True)
class Snapshot(Record):
    """All that a simulator needs to go on from here, bit for bit."""

    time: float
    numbers: Array
    node: Node | None = None
    """With events: what is held and what has just happened."""
    setting: Setting | None = None
    """Of the simulator that it was taken from."""

    def __repr__(self) -> str:
        robot = f", robot '{self.setting.robot}'" if self.setting else ""
        return f"Snapshot(time={self.time:.6g}{robot})"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4]) or "none"
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 4 else shown
