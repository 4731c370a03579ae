"""What a controller asks of the drives over one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import ArgumentError, ArrayError
from vi_contact.robot.maximal import check_array
from vi_contact.robot.parts import Array
from vi_contact.robot.robot import Robot
from vi_contact.solvers.stepper import Stepper

Reference = ArrayLike | Callable[[float], ArrayLike]
"""(nu,) numbers, one for all, or a function of time [s] that gives them."""


@dataclass(frozen=True)
class JointCommand:
    r"""A torque with a spring and a damper, solved for with the step.

    .. math:: \tau + k_p (q_{ref} - q_{k+1/2}) + k_d (v_{ref} - v_{k+1/2})

    per actuated coordinate, at the step's mean position and speed, then cut by the drive's limits.
    Being implicit it is stable for gains of any size, where a controller that computes the same
    from the last state is not. While the step resolves the servo, h kd + h^2 kp below the inertia
    that it moves, the rule adds no damping of its own; stiffer ones lean to the end of the step and
    settle within a few steps without ringing, see docs/method.md.

    Everything is (nu,) in the order of `robot.actuated_joints`, or one number for all; a continuous
    joint takes its angle in q and turns the shorter way. None is zero.

    What moves is best given as a function of time: it is read where it acts, which is the middle of
    the step, and for the position of a stiff servo a little later. The numbers of the step's start
    instead would make the robot follow half a step late.
    """

    tau: Reference | None = None
    """Feed-forward [N m or N]."""
    q: Reference | None = None
    """Reference position over the step [rad or m]."""
    v: Reference | None = None
    """Reference speed [rad/s or m/s]."""
    kp: ArrayLike = 0.0
    """Stiffness [N m/rad or N/m]; not negative, zero for joints with several coordinates."""
    kd: ArrayLike = 0.0
    """Damping [N m s/rad or N s/m]; not negative."""

    @property
    def moves(self) -> bool:
        """Whether it is another one in every step."""
        return callable(self.tau) or callable(self.q) or callable(self.v)

    def over(
        self, robot: Robot, stepper: Stepper, start: float, length: float
    ) -> tuple[Array, Array]:
        """Torques (nu,) and servos (nu, 4) over an interval that begins at a time [s]."""
        middle = start + 0.5 * length
        torques = _column("tau", _at(self.tau, middle), robot.nu)
        servos = self.servos(robot, middle)
        if callable(self.q):
            stepper.set_servos(servos)  # their gains say where they read the angle
            reads = start + stepper.feedback(length)[robot.actuated_dofs, 0] * length
            for time in np.unique(reads[reads != middle]):
                late = reads == time
                servos[late, 0] = _column("q", self.q(float(time)), robot.nu)[late]
        return torques, servos

    def servos(self, robot: Robot, time: float = 0.0) -> Array:
        """(nu, 4): position, speed, stiffness and damping of each input at a time; checked."""
        q, v = (_column(name, _at(getattr(self, name), time), robot.nu) for name in ("q", "v"))
        kp, kd = _column("kp", self.kp, robot.nu), _column("kd", self.kd, robot.nu)
        for name, gains in (("kp", kp), ("kd", kd)):
            if (gains < 0.0).any():
                raise ArrayError(name, f"has a negative gain: {gains}")
        if self.q is None and kp.any():
            raise ArrayError("q", "is missing; a stiffness kp needs a reference position")
        for joint in robot.joints:
            if joint.actuated and joint.nv > 1 and kp[_inputs(robot, joint.idx_v, joint.nv)].any():
                raise ArrayError(
                    "kp",
                    f"is not zero for joint '{joint.name}', which has {joint.nv} coordinates; give "
                    "that joint its torque in tau",
                )
        return np.column_stack([q, v, kp, kd])


@dataclass(frozen=True)
class StepFunction:
    """Torques that are constant over every interval: the value of a function at its end or middle.

    At the end, as published; a smooth torque is followed to second order at the middle. Where
    events refine a step, each part of it has its own.
    """

    value: Callable[[float], ArrayLike]
    at: Literal["end", "middle"] = "end"

    def __post_init__(self) -> None:
        if not callable(self.value):
            raise ArgumentError("value", self.value, "a function of time that gives torques (nu,)")
        if self.at not in ("end", "middle"):
            raise ArgumentError("at", self.at, "'end' or 'middle'")

    def over(self, start: float, length: float, end: float) -> ArrayLike:
        """(nu,) over the first part, of given length, of an interval between two times [s]."""
        return self.value(end if self.at == "end" else start + 0.5 * length)


def _at(reference: Reference | None, time: float) -> ArrayLike | None:
    return reference(time) if callable(reference) else reference


def _inputs(robot: Robot, first: int, count: int) -> Array:
    dofs = np.asarray(robot.actuated_dofs)
    return np.asarray((dofs >= first) & (dofs < first + count))


def _column(name: str, value: ArrayLike | None, size: int) -> Array:
    if value is None:
        return np.zeros(size)
    array = np.asarray(value)
    return check_array(name, np.full(size, value) if array.ndim == 0 else value, size)
