"""What a controller asks of the drives over one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import ArgumentError, ArrayError
from vi_contact.robot.maximal import check_array
from vi_contact.robot.parts import Array
from vi_contact.robot.robot import Robot


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
    """

    tau: ArrayLike | None = None
    """Feed-forward [N m or N]."""
    q: ArrayLike | None = None
    """Reference position over the step [rad or m]."""
    v: ArrayLike | None = None
    """Reference speed [rad/s or m/s]."""
    kp: ArrayLike = 0.0
    """Stiffness [N m/rad or N/m]; not negative, zero for joints with several coordinates."""
    kd: ArrayLike = 0.0
    """Damping [N m s/rad or N s/m]; not negative."""

    def torques(self, robot: Robot) -> Array:
        """(nu,) feed-forward."""
        return _column("tau", self.tau, robot.nu)

    def servos(self, robot: Robot) -> Array:
        """(nu, 4): position, speed, stiffness and damping of each input; checked."""
        q, v = _column("q", self.q, robot.nu), _column("v", self.v, robot.nu)
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
    """Torques as a step function: over an interval that ends at t they are `value(t)`.

    Where events refine a step, each part of it has the value at its own end.
    """

    value: Callable[[float], ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.value):
            raise ArgumentError("value", self.value, "a function of time that gives torques (nu,)")

    def at(self, end: float) -> ArrayLike:
        """(nu,) over an interval that ends at a time [s]."""
        return self.value(end)


def _inputs(robot: Robot, first: int, count: int) -> Array:
    dofs = np.asarray(robot.actuated_dofs)
    return np.asarray((dofs >= first) & (dofs < first + count))


def _column(name: str, value: ArrayLike | None, size: int) -> Array:
    if value is None:
        return np.zeros(size)
    array = np.asarray(value)
    return check_array(name, np.full(size, value) if array.ndim == 0 else value, size)
