"""Constraint functions of every joint and loop joint between two bodies.

The joint frame F is fixed on the parent, G on the child. With ``d = p_WG - p_WF`` and the relative
quaternion ``r = conj(Q_WF) Q_WG``, a joint of a kind keeps some components of d and of ``2 vec(r)``
(radians for small errors) at zero. Rows are in metres and radians.

Position rows that all three hold are in world axes, others in the axes of F. The rows of a
fully constrained rotation are taken with the sign of the scalar part of r, since r and -r are the
same rotation.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from vi_contact.mechanics.rotations import (
    Expression,
    attitude_jacobian,
    conjugate,
    product,
    rotate,
)
from vi_contact.robot.parts import Connection, JointKind, perpendicular_basis
from vi_contact.robot.robot import Robot


def _ends(
    connection: Connection,
    p_WA: Expression,
    quat_WA: Expression,
    p_WB: Expression,
    quat_WB: Expression,
) -> tuple[Expression, Expression, Expression]:
    """d = p_WG - p_WF (3,) in world axes, and the quaternions of F and G."""
    p_WF = p_WA + rotate(quat_WA, ca.DM(connection.frame_parent.p))
    p_WG = p_WB + rotate(quat_WB, ca.DM(connection.frame_child.p))
    quat_WF = product(quat_WA, ca.DM(connection.frame_parent.quat_xyzw))
    quat_WG = product(quat_WB, ca.DM(connection.frame_child.quat_xyzw))
    return p_WG - p_WF, quat_WF, quat_WG


def constraint(
    connection: Connection,
    p_WA: Expression,
    quat_WA: Expression,
    p_WB: Expression,
    quat_WB: Expression,
) -> Expression:
    """(rows,) error of a joint between the poses of its parent A and its child B [m, rad]."""
    d_W, quat_WF, quat_WG = _ends(connection, p_WA, quat_WA, p_WB, quat_WB)
    d_F = rotate(conjugate(quat_WF), d_W)
    relative = product(conjugate(quat_WF), quat_WG)
    across = ca.DM(np.stack(perpendicular_basis(connection.axis)))
    axis = ca.DM(connection.axis)
    tilt = across @ (2.0 * relative[:3])
    turn = ca.if_else(relative[3] >= 0.0, 2.0, -2.0) * relative[:3]
    match connection.kind:
        case JointKind.FLOATING:
            return d_W[:0]
        case JointKind.REVOLUTE:
            return ca.vertcat(d_W, tilt)
        case JointKind.PRISMATIC:
            return ca.vertcat(across @ d_F, turn)
        case JointKind.FIXED:
            return ca.vertcat(d_W, turn)
        case JointKind.SPHERICAL:
            return d_W
        case JointKind.PLANAR:
            return ca.vertcat(ca.dot(axis, d_F), tilt)
        case JointKind.UNIVERSAL:
            other = rotate(quat_WG, ca.DM(connection.axis2))
            return ca.vertcat(d_W, ca.dot(rotate(quat_WF, axis), other))
        case JointKind.GLIDING:
            return ca.dot(axis, d_F)


def angle_or_travel(
    connection: Connection,
    p_WA: Expression,
    quat_WA: Expression,
    p_WB: Expression,
    quat_WB: Expression,
) -> Expression:
    """Coordinate of a revolute joint, in (-pi, pi], or of a prismatic joint [rad or m]."""
    d_W, quat_WF, quat_WG = _ends(connection, p_WA, quat_WA, p_WB, quat_WB)
    if connection.kind is JointKind.PRISMATIC:
        return ca.dot(ca.DM(connection.axis), rotate(conjugate(quat_WF), d_W))
    relative = product(conjugate(quat_WF), quat_WG)
    sign = ca.if_else(relative[3] >= 0.0, 1.0, -1.0)
    return 2.0 * ca.atan2(sign * ca.dot(ca.DM(connection.axis), relative[:3]), sign * relative[3])


def robot_constraints(robot: Robot) -> ca.Function:
    """All constraints of a robot as a function of its body poses, with their Jacobian.

    Inputs: p_WB (3, n), quat_WB (4, n), one column per body. Outputs: error (m,), Jacobian
    (m, 6 n) for the columns (dx world, dphi body) of each body. Rows: joints of the tree, loop
    joints, mimic joints.
    """
    count = len(robot.bodies)
    p_WB, quat_WB = ca.SX.sym("p_WB", 3, count), ca.SX.sym("quat_WB", 4, count)

    def pose(body: int) -> tuple[Expression, Expression]:
        if body < 0:
            return ca.SX.zeros(3), ca.SX(ca.DM([0.0, 0.0, 0.0, 1.0]))
        return p_WB[:, body], quat_WB[:, body]

    def ends(connection: Connection) -> tuple[Expression, ...]:
        return (*pose(connection.parent), *pose(connection.child))

    rows = [constraint(part, *ends(part)) for part in (*robot.joints, *robot.loops)]
    for mimic in robot.mimics:
        joint, source = robot.joints[mimic.joint], robot.joints[mimic.source]
        followed = mimic.multiplier * angle_or_travel(source, *ends(source)) + mimic.offset
        rows.append(angle_or_travel(joint, *ends(joint)) - followed)
    error = ca.vertcat(*rows) if rows else ca.SX(0, 1)
    columns = []
    for body in range(count):
        columns.append(ca.jacobian(error, p_WB[:, body]))
        by_quaternion = ca.jacobian(error, quat_WB[:, body])
        columns.append(by_quaternion @ (0.5 * attitude_jacobian(quat_WB[:, body])))
    jacobian = ca.horzcat(*columns) if columns else ca.SX(error.shape[0], 0)
    return ca.Function(
        "robot_constraints",
        [p_WB, quat_WB],
        [error, jacobian],
        ["p_WB", "quat_WB"],
        ["error", "jacobian"],
    )
