"""Events: functions of the state whose zeros end a step, and what happens there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from numpy.typing import ArrayLike
from scipy.optimize import brentq

from vi_contact.errors import ArgumentError, EventError, ViContactError
from vi_contact.robot.parts import immutable
from vi_contact.simulation.state import State

TIME_TOLERANCE = 1e-15
"""To which a crossing is located [s]: at 100 m/s, a tenth of a picometre."""

MOST_EVENTS = 100
"""Events within one time step; more of them are taken for infinitely many (Zeno)."""

Given = TypeVar("Given")

Reset = Callable[[State], tuple[ArrayLike, ArrayLike]]


@immutable("make another simulator by vc.Simulator(robot, events=[vc.Event(...)])")
@dataclass(frozen=True)
class Event:
    """Where `guard(state)` crosses zero, a step ends there and `reset(state)` gives a new (q, v).

    The crossing time is solved for: the step to it has the length for which the guard is zero.
    Guards are looked at where steps end; two crossings within one step are not seen.
    """

    guard: Callable[[State], float]
    reset: Reset | None = None
    """The configuration (nq,) and velocity (nv,) after the event; None leaves them as they are."""
    direction: int = 0
    """1: only crossings from below zero, -1: only from above, 0: both."""
    terminal: bool = False
    """Whether a run ends there."""
    name: str = "event"

    def __post_init__(self) -> None:
        if not callable(self.guard):
            raise ArgumentError("guard", self.guard, "a function of the state that gives a number")
        if self.reset is not None and not callable(self.reset):
            raise ArgumentError("reset", self.reset, "a function of the state that gives (q, v)")
        if self.direction not in (-1, 0, 1):
            raise ArgumentError("direction", self.direction, "-1, 0 or 1")

    def value(self, state: State) -> float:
        """Of the guard, a finite number."""
        given = self._call("guard", self.guard, state)
        try:
            number = float(given)
        except (TypeError, ValueError):
            raise EventError(self.name, state.time, "its guard gave no number") from None
        if not math.isfinite(number):
            raise EventError(self.name, state.time, f"its guard gave {number}")
        return number

    def _call(self, what: str, function: Callable[[State], Given], state: State) -> Given:
        """What a function of the user gives; what it raises is told with the event's name."""
        try:
            return function(state)
        except ViContactError:  # says what was wrong itself
            raise
        except Exception as error:
            problem = f"its {what} raised {type(error).__name__}: {error}"
            raise EventError(self.name, state.time, problem) from error

    def crosses(self, before: float, after: float) -> bool:
        """Whether the guard passed zero in the direction asked for."""
        rises, falls = before < 0.0 <= after, before > 0.0 >= after
        return (rises and self.direction >= 0) or (falls and self.direction <= 0)

    def jump(self, state: State) -> tuple[ArrayLike, ArrayLike]:
        """The (q, v) that `reset` gives."""
        assert self.reset is not None
        result = self._call("reset", self.reset, state)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise EventError(self.name, state.time, "its reset must give the pair (q, v)")
        return result


class Occurrence(NamedTuple):
    """Something that happened during a run."""

    time: float
    kind: str
    """ "impact", "release" or "event"."""
    name: str
    """Of the contact or the event."""
    refinements: int
    """Of a release: bisections, or equal parts of the step, until its time was physical."""


def crossing(
    function: Callable[[float], float], low: float, high: float, at_low: float, at_high: float
) -> float:
    """The step length between `low` and `high` at which a function of it is zero [s].

    It has different signs at both ends, where its values are known.
    """
    known = {low: at_low, high: at_high}
    return float(
        brentq(
            lambda h: known[h] if h in known else function(h),
            low,
            high,
            xtol=TIME_TOLERANCE,
            rtol=1e-15,
            maxiter=200,
        )
    )
