r"""Springs and dampers between two points, in one step.

With d the vector between the points and l its length, the potential is that of the mean length and
the damper acts at the mean rate: an impulse along the line at either node,

.. math:: \lambda = -\frac{h}{2} \Big( k \Big(\frac{l_0 + l_1}{2} - l_r\Big)
   + c\, \frac{l_1 - l_0}{h} \Big)

which for the spring are the derivatives of :math:`-h\,V((l_0 + l_1)/2)`. A spring of rest length
zero has no direction where it is at rest, and needs none: it has
:math:`-\frac{h}{2} k \big|\frac{d_0 + d_1}{2}\big|^2` instead.

Where contacts act on springs that the step does not resolve, lengths are taken at alpha and not at
1/2, and the impulse at either node is a share of that of the interval and a number that is carried;
`RULE` are the columns of these numbers, see `springs.hpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import casadi as ca

from vi_contact.mechanics.rotations import Expression, rotate
from vi_contact.robot.parts import Array, Spring
from vi_contact.robot.robot import Robot

if TYPE_CHECKING:
    from vi_contact.mechanics.discrete_lagrangian import Poses

RULE = 5
"""Numbers of a row: alpha; share and carried impulse at the left node; the same at the right."""
MIDPOINT = (0.5, 1.0, 0.0, 1.0, 0.0)
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


def pulls(spring: Spring, left: Poses, right: Poses, h: Expression, rule: Expression) -> list[Pull]:
    """The rows of a spring; rule (rows, 5)."""
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
            law = -h / 2.0 * k * (d0[i] + rule[i, 0] * (d1[i] - d0[i]))
            rows.append(Pull(law, 2.0 / (h * h * rule[i, 0] * k), axis, axis))
        k = 0.0
    if k > 0.0 or c > 0.0:
        (l0, n0), (l1, n1) = _line(d0), _line(d1)
        if k == 0.0:  # a damper may pass through the length zero
            side = ca.if_else(ca.dot(n0, n1) < 0.0, -1.0, 1.0)
            l1, n1 = side * l1, side * n1
        alpha = rule[len(rows), 0]
        stretch = l0 + alpha * (l1 - l0) - spring.rest_length
        law = -h / 2.0 * k * stretch - c / 2.0 * (l1 - l0)
        rows.append(Pull(law, 1.0 / (h * h * alpha * k / 2.0 + h * c / 2.0), n0, n1))
    return rows


def all_pulls(
    robot: Robot, left: Poses, right: Poses, h: Expression, rule: Expression
) -> list[tuple[Spring, Pull]]:
    """The rows of all springs; rule (rows, 5)."""
    found: list[tuple[Spring, Pull]] = []
    for spring in robot.springs:
        found += [(spring, pull) for pull in pulls(spring, left, right, h, rule[len(found) :, :])]
    return found


def midpoint(robot: Robot) -> Expression:
    """(rows, 5) the rule of all springs in robots without contacts."""
    rows = sum(map(row_count, robot.springs))
    return ca.repmat(ca.DM(MIDPOINT).T, rows, 1)


def _line(d: Expression) -> tuple[Expression, Expression]:
    """Length and direction; none at length zero, where the compiled step takes the other node's."""
    length = ca.sqrt(ca.sumsqr(d) + SHORTEST**2)
    return length, d / length
