"""What a drive can give: the limits of the URDF and of a motor, which act together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vi_contact.robot.parts import Joint, Motor

ROUNDING = 0.01
"""Limits this much below those of the motor, relative to them, are the same ones rounded."""


class DriveLimits(NamedTuple):
    """Of a coordinate of a joint; infinite where there is none."""

    effort: float
    """Largest torque that can be asked for [N m or N]."""
    velocity: float
    """Speed at which driving torque has faded to zero [rad/s or m/s]."""
    stall: float
    """Torque of a motor's full voltage at rest."""
    slope: float
    """How that falls with speed."""
    peak: float
    """Largest torque with a motor, driving or braking."""


def drive_limits(joint: Joint, k: int, motor: Motor | None) -> DriveLimits:
    """Limits of coordinate k of a joint; a motor's peak is that of its current, or the effort.

    A velocity limit that is no lower than the motor's no-load speed has nothing to add: it is where
    the line of torque and speed ends, and no second fade goes on top of that.
    """
    effort, velocity = float(joint.effort[k]), float(joint.velocity[k])
    if motor is None:
        return DriveLimits(effort, velocity, np.inf, 0.0, np.inf)
    stall, slope, peak = motor.limits
    if velocity >= (1.0 - ROUNDING) * motor.no_load_speed:
        velocity = np.inf
    return DriveLimits(effort, velocity, stall, slope, min(peak, effort))


def peak_torque(joint: Joint, motor: Motor) -> tuple[float, str]:
    """The largest torque at rest, and what sets it."""
    stall, _, current = motor.limits
    least = min(stall, current, float(joint.effort[0]))
    words = {"current": current, "voltage": stall, "effort limit": float(joint.effort[0])}
    names = [name for name, value in words.items() if value <= least / (1.0 - ROUNDING)]
    return least, names[0] if np.isfinite(least) else ""


def top_speed(joint: Joint, motor: Motor) -> tuple[float, str]:
    """The speed at which there is no driving torque left, and what sets it."""
    limit = drive_limits(joint, 0, motor).velocity
    if np.isfinite(limit):
        return limit, "velocity limit"
    return motor.no_load_speed, "voltage" if np.isfinite(motor.no_load_speed) else ""
