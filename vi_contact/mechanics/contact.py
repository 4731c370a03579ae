r"""The laws of contact and friction, as constraints of a nonlinear program.

A contact is a small sphere, centre C and radius r, on a body; the ground a plane
:math:`N^\top p = d` with two tangents, the rows of T. Over a step from node 0 to node 1

.. math:: \phi = N^\top p_C(q_1) - d - r, \qquad
   \delta = T\,[p_C(q_1) - p_C(q_0) - 2 r\, u \times N], \quad u = \mathrm{vec}(Q_1 Q_0^*)

are the gap and the slip, a displacement that includes rolling. The impulse acts at node 0 on the
surface of the sphere. The friction force is b = mu n e: e says which part of the cone it takes.

Complementarities are relaxed, with slacks s that the program makes as small as it can:

====================  ==============================================================
no penetration        phi >= 0, n >= 0, s >= n phi
maximum dissipation   delta + psi e = 0, psi >= 0
Coulomb's cone        left = 1 + 2 eps - e'e >= 0, s >= psi left
====================  ==============================================================

Where this departs from paper 002:

- (40) is an inequality there, which admits sliding without friction. As an equation with b/|b| it
  has no solution for an open contact that moves, where b = 0; with e = b / (mu n) it has.
- (43), (44): the smoothed norm |e| = sqrt(e'e + eps^2) - eps <= 1 is squared, which is the same set
  without a root. With b for a variable and |b| in its place, Newton's method meets curvatures of
  1/eps wherever friction is small: a resting box took 70 iterations instead of 5.
- (48), (49): the lever of the contact force ends on the foot's surface.
- v_m = (q_{k+1} - q_k) / 2 is a misprint for .../h; here slip is a displacement.
"""

from __future__ import annotations

import casadi as ca

from vi_contact.mechanics.rotations import Expression, conjugate, product, rotate


def gap(
    x: Expression, quat: Expression, p_BC: Expression, radius: Expression, plane: Expression
) -> Expression:
    """Distance of a contact to the plane (4,), unit normal and height [m]; negative inside."""
    return ca.dot(plane[:3], x + rotate(quat, p_BC)) - plane[3] - radius


def slip(
    node0: tuple[Expression, Expression],
    node1: tuple[Expression, Expression],
    p_BC: Expression,
    radius: Expression,
    normal: Expression,
    tangents: Expression,
) -> Expression:
    """(2,) displacement of the contact point along the tangents (2, 3), rolling included [m]."""
    (x0, quat0), (x1, quat1) = node0, node1
    moved = x1 + rotate(quat1, p_BC) - x0 - rotate(quat0, p_BC)
    turn = product(quat1, conjugate(quat0))[:3]
    return tangents @ (moved - 2.0 * radius * ca.cross(turn, normal))


def wrench(
    quat: Expression, p_BC: Expression, radius: Expression, normal: Expression, impulse: Expression
) -> Expression:
    """(6,) of a world impulse at the contact: world force, torque about the body in its axes."""
    back = conjugate(quat)
    lever = p_BC - radius * rotate(back, normal)
    return ca.vertcat(impulse, ca.cross(lever, rotate(back, impulse)))


def unilateral(distance: Expression, n: Expression, slack: Expression) -> Expression:
    """(2,) rows at least zero: distance, slack - n distance."""
    return ca.vertcat(distance, slack - n * distance)


def friction(
    e: Expression, moved: Expression, psi: Expression, slack: Expression, smoothing: Expression
) -> tuple[Expression, Expression]:
    """Maximum dissipation (rows that vanish) and the cone with its complementarity (at least 0)."""
    left = 1.0 + 2.0 * smoothing - ca.sumsqr(e)
    return moved + psi * e, ca.vertcat(left, slack - psi * left)
