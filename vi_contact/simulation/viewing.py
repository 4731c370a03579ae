"""What a simulation asks of a viewer that watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vi_contact.robot.parts import Array
from vi_contact.simulation.state import State
from vi_contact.simulation.trajectory import Trajectory

if TYPE_CHECKING:
    from vi_contact.simulation.simulator import Simulator


class Viewer(Protocol):
    """Watches `Simulator.run`; `vc.view(robot)` makes one."""

    def start(self, sim: Simulator) -> int:
        """Before the first step. Returns the steps between pictures; 0 for none while it runs."""

    def show(self, state: State, touches: Array, points: Array) -> None:
        """A picture; touches (M, 6) of the last step: step, contact, world force, sliding.

        points (L, 3): where those of links act, in order [m]; those with the ground do at the foot.
        """

    def finish(self, trajectory: Trajectory) -> None:
        """After the last step."""
