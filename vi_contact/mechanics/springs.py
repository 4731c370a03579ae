r"""Springs and dampers between two points, in one step.

With d the vector between the points and l its length, the potential is that of the mean length and
the damper acts at the mean rate: an impulse along the line at either node,

.. math:: \lambda = -\frac{h}{2} \Big( k \Big(\frac{l_0 + l_1}{2} - l_r\Big)
   + c\, \frac{l_1 - l_0}{h} \Big)

which for the spring are the derivatives of :math:`-h\,V((l_0 + l_1)/2)`. A spring of rest length
zero has no direction where it is at rest, and needs none: it has
:math:`-\frac{h}{2} k \big|\frac{d_0 + d_1}{2}\big|^2` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import casadi as ca

from vi_contact.mechanics.rotations import Expression, rotate
from vi_contact.robot.parts import Array, Spring

if TYPE_CHECKING:
    from vi_contact.mechanics.discrete_lagrangian import Poses

SHORTEST = 1e-12
"""Lengths are smooth below this [m]."""


class Pull(NamedTuple):
    """One row of a spring: an impulse on point 2 at either node, and its reaction on point 1."""

    law: Expression
    """What the impulse is [N s]."""
    compliance: Expression
    """Change of the mean rate of the length by the impulse [1/kg]."""
    left: Expression
    """(3,) its direction at the left node, world axes."""
    right: Expression


def point(poses: Poses, body: int, p: Array) -> Expression:
    """(3,) a point of a body in the world."""
    x, quat = poses(body)
    return x + rotate(quat, ca.DM(p))


def row_count(spring: Spring) -> int:
    """Three rows if it is central, and that of the line."""
    if spring.body_1 == spring.body_2:
        return 0
    central = _is_central(spring)
    along = spring.damping > 0.0 or (spring.stiffness > 0.0 and not central)
    return 3 * central + along


def _is_central(spring: Spring) -> bool:
    return spring.stiffness > 0.0 and spring.rest_length == 0.0


def pulls(spring: Spring, left: Poses, right: Poses, h: Expression) -> list[Pull]:
    """The rows of a spring."""
    if spring.body_1 == spring.body_2:
        return []
    d0, d1 = (
        point(poses, spring.body_2, spring.p_2) - point(poses, spring.body_1, spring.p_1)
        for poses in (left, right)
    )
    k, c, rows = spring.stiffness, spring.damping, []
    if _is_central(spring):
        for i in range(3):
            axis = ca.DM.eye(3)[:, i]
            law = -h / 4.0 * k * (d0[i] + d1[i])
            rows.append(Pull(law, 4.0 / (h * h * k), axis, axis))
        k = 0.0
    if k > 0.0 or c > 0.0:
        (l0, n0), (l1, n1) = _line(d0), _line(d1)
        if k == 0.0:  # a damper may pass through the length zero
            side = ca.if_else(ca.dot(n0, n1) < 0.0, -1.0, 1.0)
            l1, n1 = side * l1, side * n1
        mean = (l0 + l1) / 2.0 - spring.rest_length
        law = -h / 2.0 * k * mean - c / 2.0 * (l1 - l0)
        rows.append(Pull(law, 1.0 / (h * h * k / 4.0 + h * c / 2.0), n0, n1))
    return rows


def _line(d: Expression) -> tuple[Expression, Expression]:
    """Length and direction; none at length zero, where the compiled step takes the other node's."""
    length = ca.sqrt(ca.sumsqr(d) + SHORTEST**2)
    return length, d / length
