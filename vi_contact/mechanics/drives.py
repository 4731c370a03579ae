"""Drives of joints: what a motor, or a plain drive with limits, gives of the torque asked for."""

from __future__ import annotations

import casadi as ca
import numpy as np

from vi_contact.mechanics.rotations import Expression
from vi_contact.robot.drives import drive_limits
from vi_contact.robot.parts import Joint, Motor

FADE_START = 0.9
"""A drive fades from this fraction of its velocity limit on."""


def drive_torque(
    joint: Joint, k: int, motor: Motor | None, command: Expression, speed: Expression
) -> Expression:
    """Torque of coordinate k of a joint at the mean speed of the step, when `command` is asked."""
    effort, top, stall, slope, peak = drive_limits(joint, k, motor)
    torque = _within(command, -effort, effort)
    torque = _within(torque, -stall - slope * speed, stall - slope * speed, stall)
    torque = _within(torque, -peak, peak)
    if not np.isfinite(top):
        return torque
    driving = ca.if_else(torque > 0.0, speed, -speed)
    return torque * ca.fmin(1.0, ca.fmax(0.0, (top - driving) / ((1.0 - FADE_START) * top)))


def lean(theta: Expression, feedback: Expression, before: Expression, h: Expression) -> Expression:
    r"""Impulse that a stiff feedback gives at the left node, besides the half of it at either.

    .. math:: (\theta - \tfrac12) h (b_k - b_{k-1})

    Feedback b is what a drive gives for its servo, and the joint's damping; a stiff servo reads its
    angle at :math:`q_k + \alpha d`. `_core/joint_forces.hpp` says which numbers do not ring.
    """
    return (theta - 0.5) * h * (feedback - before)


def _within(
    value: Expression, lower: Expression, upper: Expression, size: float | None = None
) -> Expression:
    """Cut to an interval; one whose size is infinite is none."""
    if not np.isfinite(upper if size is None else size):
        return value
    return ca.fmax(lower, ca.fmin(upper, value))
