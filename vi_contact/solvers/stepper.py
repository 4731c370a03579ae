"""What a solver of steps offers the simulator."""

from __future__ import annotations

from typing import Protocol

from vi_contact.robot.parts import Array

Report = tuple[int, int, float, float, int, int, int, int]
"""Of a step: status, iterations, residual, loop error, body at fault, parts, closed contacts, and
its place in `METHODS`."""

METHODS = ("newton", "sweeps", "interior point", "ipopt")
"""What solved a step."""


class Stepper(Protocol):
    """Holds a state and moves it by steps; arrays are written in place.

    The state as numbers begins with those of the compiled stepper, which reads them.
    """

    def reset(self, q: Array, v: Array) -> None:
        """Starts from q (nq,) and v (nv,) at the node."""

    def state_size(self) -> int:
        """Length of the state as numbers."""

    def get_state(self, out: Array) -> None:
        """Writes the state."""

    def set_state(self, state: Array) -> None:
        """Goes back to what `get_state` wrote."""

    def set_servos(self, servos: Array | None) -> None:
        """Servos that act from now on, rows (angle, speed, stiffness, damping) per input."""

    def feedback(self, time_step: float) -> Array:
        """(nv, 3): alpha, theta and last feedback of every coordinate in a step of that length."""

    def steps_taken(self) -> int:
        """Whole steps since it was made; of a call that Ctrl-C or an error ended, too."""

    def step(self, tau: Array | None, wrenches: Array | None) -> Report:
        """One step under tau (nu,) and wrenches (n, 6); a failed one leaves the state."""

    def run(
        self,
        steps: int,
        tau: Array | None,
        tau_varies: bool,
        wrenches: Array | None,
        q: Array | None,
        v: Array | None,
        applied_tau: Array | None,
        works: Array | None,
        counts: Array | None,
    ) -> tuple[int, Report]:
        """Steps until done or failed, and records what is not None."""

    def log(self) -> Array:
        """Rows (step, contact, force in world axes, sliding) of the last run."""

    def point_log(self) -> Array:
        """Rows (step, point) of the touches of two links in that log, at the start of the step."""

    def gap_log(self) -> Array:
        """Rows (node, pair of links, gap) of the last run; pairs far apart are left out."""

    def error(self, v0: Array, v1: Array) -> float:
        """Estimate of the error of the last step between node velocities v0 and v1 [m or rad]."""

    def get_tau(self, tau: Array, saturated: Array) -> None:
        """Writes the torques of the last step, and 1 where they are not what was asked for."""
