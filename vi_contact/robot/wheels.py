"""Which bodies are wheels: they turn about their joint's axis by any angle in a time step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vi_contact.robot.parts import Array, Body, Joint, JointKind, Loop

PRODUCTS = 0.1
"""Largest products of inertia of a wheel, as a part of its inertia about the axis. What is not
symmetric turns as any body does, which is followed up to about half a radian per step."""

ECCENTRIC = 0.01
"""Largest mass times square of the distance of its centre of mass from the axis, likewise: a tenth
of the radius of gyration."""

MANY_TURNS = 16.0 * np.pi
"""A range [rad] that says nothing about a joint that turns on and on; exporters write such."""


@dataclass(frozen=True)
class Wheel:
    """A body at the end of the tree that spins about its joint's axis.

    Its inertia about the centre of mass is that of a body symmetric about the axis, and the rest.
    """

    joint: int
    axial: float
    """About the axis [kg m2]."""
    transverse: float
    """Across it, the mean [kg m2]."""

    def symmetric(self, axis: Array) -> Array:
        """(3, 3) the symmetric part, in the axes of the body [kg m2]."""
        along = np.outer(axis, axis)
        return self.transverse * (np.eye(3) - along) + self.axial * along


def find_wheels(
    bodies: Sequence[Body], joints: Sequence[Joint], loops: Sequence[Loop]
) -> tuple[Wheel, ...]:
    """Leaf bodies on revolute joints without limits, well balanced, and in no loop."""
    carrying = {joint.parent for joint in joints}
    carrying |= {body for loop in loops for body in (loop.parent, loop.child)}
    wheels = []
    for i, (body, joint) in enumerate(zip(bodies, joints, strict=True)):
        if joint.kind is not JointKind.REVOLUTE or i in carrying:
            continue
        if not (joint.continuous or joint.upper[0] - joint.lower[0] >= MANY_TURNS):
            continue
        along = body.inertia @ joint.axis
        axial = float(joint.axis @ along)
        product = float(np.linalg.norm(along - axial * joint.axis))
        off = body.com - (body.com @ joint.axis) * joint.axis
        eccentric = body.mass * float(off @ off)
        if axial > 0.0 and product <= PRODUCTS * axial and eccentric <= ECCENTRIC * axial:
            wheels.append(Wheel(i, axial, 0.5 * (float(np.trace(body.inertia)) - axial)))
    return tuple(wheels)
