r"""The discrete Lagrangian of a robot in maximal coordinates, and the step's balance of momentum.

Over an interval of length h from node 0 to node 1, with :math:`e = \mathrm{vec}(Q_0^* Q_1)`,

.. math:: L_d = \sum_\mathrm{bodies} \frac{m}{2h} |x_1 - x_0|^2 + \frac{2}{h} e^\top J e
   + \sum_\mathrm{joints} \frac{A}{2h} (\theta_1 - \theta_0)^2 - \frac{h}{2} (V(q_0) + V(q_1))

with the potential V of gravity and springs and the rotor inertia A. Momenta at the two ends are its
derivatives, :math:`-D_1 L_d` and :math:`D_2 L_d`, with respect to (dx in world axes, dphi in body
axes) of every body; here CasADi differentiates. Forces act as half impulses at both ends, joint
torques as equal and opposite wrenches on the two bodies.

The compiled step is this, solved in the joints' coordinates; tests hold it against these lines.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca

from vi_contact.mechanics.joints import angle_or_travel, constraint
from vi_contact.mechanics.rotations import (
    Expression,
    attitude_jacobian,
    conjugate,
    product,
    rotate,
)
from vi_contact.robot.parts import WORLD, Array, Connection, Joint, JointKind
from vi_contact.robot.robot import Robot

Poses = Callable[[int], tuple[Expression, Expression]]
ONE_COORDINATE = (JointKind.REVOLUTE, JointKind.PRISMATIC)


def kinetic(robot: Robot, left: Poses, right: Poses, h: float) -> Expression:
    """Kinetic part of the discrete Lagrangian [J s]."""
    action = ca.SX(0)
    for i, body in enumerate(robot.bodies):
        (x0, quat0), (x1, quat1) = left(i), right(i)
        e = product(conjugate(quat0), quat1)[:3]
        action += body.mass / (2.0 * h) * ca.sumsqr(x1 - x0)
        action += 2.0 / h * ca.dot(e, ca.DM(body.inertia) @ e)
    for joint in robot.joints:
        if joint.kind in ONE_COORDINATE and joint.armature[0] > 0.0:
            turned = _coordinate(joint, right) - _coordinate(joint, left)
            action += joint.armature[0] / (2.0 * h) * turned**2
    return action


def potential(robot: Robot, poses: Poses, gravity: Array) -> Expression:
    """Of gravity and springs [J]."""
    energy = ca.SX(0)
    for i, body in enumerate(robot.bodies):
        energy -= body.mass * ca.dot(ca.DM(gravity), poses(i)[0])
    for spring in robot.springs:
        length = _distance(poses, spring.body_1, spring.p_1, spring.body_2, spring.p_2)
        energy += 0.5 * spring.stiffness * (length - spring.rest_length) ** 2
    return energy


def step_balance(robot: Robot, time_step: float, gravity: Array) -> ca.Function:
    """Momentum balance of one step in maximal coordinates.

    Inputs: x0, quat0, x1, quat1 of all bodies, (3, n) and (4, n); torque (nv,) of the joints;
    wrenches (6, n), world axes at the centres of mass; multipliers (m,), impulses of all joints'
    and loops' rows at the left node. Outputs, (6 n,), columns (dx world, dphi body) per body:
    `left`, the momentum that node 0 must have, and `right`, the momentum that node 1 then has.
    """
    n, h = len(robot.bodies), time_step
    x0, x1 = ca.SX.sym("x0", 3, n), ca.SX.sym("x1", 3, n)
    quat0, quat1 = ca.SX.sym("quat0", 4, n), ca.SX.sym("quat1", 4, n)
    torque, wrenches = ca.SX.sym("torque", robot.nv), ca.SX.sym("wrenches", 6, n)
    left, right = _poses(x0, quat0), _poses(x1, quat1)

    action = kinetic(robot, left, right, h)
    action -= h / 2.0 * (potential(robot, left, gravity) + potential(robot, right, gravity))
    rows = _rows(robot, left)
    multipliers = ca.SX.sym("multipliers", rows.shape[0])
    rates = [_mean_speed(joint, left, right, h) for joint in robot.joints]

    def force(poses: Poses) -> Expression:
        """Impulses of half the interval on the bodies, directions of one node."""
        wrench = [ca.SX.zeros(6) for _ in range(n)]
        for i in range(n):
            turned = rotate(conjugate(poses(i)[1]), wrenches[3:, i])
            wrench[i] += h / 2.0 * ca.vertcat(wrenches[:3, i], turned)
        for joint, rate in zip(robot.joints, rates, strict=True):
            span = slice(joint.idx_v, joint.idx_v + joint.nv)
            effort = torque[span] - ca.DM(joint.damping) * rate
            _add_joint_force(joint, poses, h / 2.0 * effort, wrench)
        for spring in robot.springs:
            ends = (spring.body_1, spring.p_1, spring.body_2, spring.p_2)
            stretched = _distance(right, *ends) - _distance(left, *ends)
            _add_pull(poses, ends, spring.damping * stretched / 2.0, wrench)
        return ca.vertcat(*wrench)

    by_left, by_right = _derivative(action, x0, quat0), _derivative(action, x1, quat1)
    closing = _derivative(ca.dot(multipliers, rows), x0, quat0)
    return ca.Function(
        "step_balance",
        [x0, quat0, x1, quat1, torque, wrenches, multipliers],
        [-by_left - force(left) - closing, by_right + force(right)],
        ["x0", "quat0", "x1", "quat1", "torque", "wrenches", "multipliers"],
        ["left", "right"],
    )


def step_jacobian(robot: Robot, time_step: float, gravity: Array) -> ca.Function:
    """(6 n, 6 n): change of `left` of `step_balance` with the poses at node 1; same inputs."""
    balance = step_balance(robot, time_step, gravity)
    inputs = [ca.SX.sym(balance.name_in(i), balance.sparsity_in(i)) for i in range(balance.n_in())]
    left = balance(*inputs)[0]
    columns = []
    for i in range(len(robot.bodies)):
        x1, quat1 = inputs[2], inputs[3]
        by_x = ca.jacobian(left, ca.vec(x1))[:, 3 * i : 3 * i + 3]
        by_quat = ca.jacobian(left, ca.vec(quat1))[:, 4 * i : 4 * i + 4]
        columns += [by_x, by_quat @ (0.5 * attitude_jacobian(quat1[:, i]))]
    return ca.Function("step_jacobian", inputs, [ca.horzcat(*columns)])


# ------------------------------------------------------------------------------ pieces
def _poses(x: Expression, quat: Expression) -> Poses:
    def pose(body: int) -> tuple[Expression, Expression]:
        if body == WORLD:
            return ca.SX.zeros(3), ca.SX(ca.DM([0.0, 0.0, 0.0, 1.0]))
        return x[:, body], quat[:, body]

    return pose


def _derivative(scalar: Expression, x: Expression, quat: Expression) -> Expression:
    """(6 n,) gradient for (dx, dphi) of every body, dQ = 1/2 G dphi."""
    by_x, by_quat = ca.gradient(scalar, x), ca.gradient(scalar, quat)
    parts = []
    for i in range(x.shape[1]):
        parts += [by_x[:, i], 0.5 * attitude_jacobian(quat[:, i]).T @ by_quat[:, i]]
    return ca.vertcat(*parts)


def _ends(connection: Connection, poses: Poses) -> tuple[Expression, ...]:
    return (*poses(connection.parent), *poses(connection.child))


def _coordinate(joint: Joint, poses: Poses) -> Expression:
    return angle_or_travel(joint, *_ends(joint, poses))


def _rows(robot: Robot, poses: Poses) -> Expression:
    """Constraints of the tree's joints, then of the loops, then of the mimic joints."""
    rows = [constraint(part, *_ends(part, poses)) for part in (*robot.joints, *robot.loops)]
    for mimic in robot.mimics:
        followed = mimic.multiplier * _coordinate(robot.joints[mimic.source], poses) + mimic.offset
        rows.append(_coordinate(robot.joints[mimic.joint], poses) - followed)
    return ca.vertcat(ca.SX(0, 1), *rows)


def _relative(joint: Joint, poses: Poses) -> tuple[Expression, Expression]:
    """Displacement and quaternion of G in F."""
    p_WA, quat_WA, p_WB, quat_WB = _ends(joint, poses)
    quat_WF = product(quat_WA, ca.DM(joint.frame_parent.quat_xyzw))
    quat_WG = product(quat_WB, ca.DM(joint.frame_child.quat_xyzw))
    p_WF = p_WA + rotate(quat_WA, ca.DM(joint.frame_parent.p))
    p_WG = p_WB + rotate(quat_WB, ca.DM(joint.frame_child.p))
    back = conjugate(quat_WF)
    return rotate(back, p_WG - p_WF), product(back, quat_WG)


def _mean_speed(joint: Joint, left: Poses, right: Poses, h: float) -> Expression:
    """(nv,) mean velocity of a joint over the interval, 2 vec(r0* r1) / h for rotations.

    Only joints that slide along one axis or turn have damping here; free ones give zero.
    """
    if joint.kind in ONE_COORDINATE:
        return (_coordinate(joint, right) - _coordinate(joint, left)) / h
    if joint.kind is JointKind.SPHERICAL:
        before, after = _relative(joint, left)[1], _relative(joint, right)[1]
        return 2.0 / h * product(conjugate(before), after)[:3]
    return ca.SX.zeros(joint.nv)


def _add_joint_force(
    joint: Joint, poses: Poses, effort: Expression, wrench: list[Expression]
) -> None:
    """Adds a joint's force to its two bodies: equal, opposite, at the joint."""
    linear, angular = ca.SX.zeros(3), ca.SX.zeros(3)  # axes of the child
    match joint.kind:
        case JointKind.REVOLUTE:
            angular = ca.DM(joint.axis) * effort
        case JointKind.PRISMATIC:
            linear = ca.DM(joint.axis) * effort
        case JointKind.SPHERICAL:
            angular = effort
        case JointKind.PLANAR:
            linear, angular = ca.vertcat(effort[:2], 0), ca.vertcat(0, 0, effort[2])
        case _:
            linear, angular = effort[:3], effort[3:]
    p_WA, quat_WA, p_WB, quat_WB = _ends(joint, poses)
    p_WG = p_WB + rotate(quat_WB, ca.DM(joint.frame_child.p))
    f_W, t_W = rotate(quat_WB, linear), rotate(quat_WB, angular)
    for body, p, quat, sign in (
        (joint.child, p_WB, quat_WB, 1.0),
        (joint.parent, p_WA, quat_WA, -1.0),
    ):
        if body != WORLD:
            about = rotate(conjugate(quat), t_W + ca.cross(p_WG - p, f_W))
            wrench[body] += sign * ca.vertcat(f_W, about)


def _point(poses: Poses, body: int, p: Array) -> Expression:
    x, quat = poses(body)
    return x + rotate(quat, ca.DM(p))


def _distance(poses: Poses, body_1: int, p_1: Array, body_2: int, p_2: Array) -> Expression:
    return ca.norm_2(_point(poses, body_2, p_2) - _point(poses, body_1, p_1))


def _add_pull(
    poses: Poses,
    ends: tuple[int, Array, int, Array],
    pull: Expression,
    wrench: list[Expression],
) -> None:
    """Adds an impulse that draws two points together."""
    body_1, p_1, body_2, p_2 = ends
    d = _point(poses, body_2, p_2) - _point(poses, body_1, p_1)
    f_W = pull * d / ca.norm_2(d)
    for body, p, sign in ((body_1, p_1, 1.0), (body_2, p_2, -1.0)):
        if body != WORLD:
            about = ca.cross(ca.DM(p), rotate(conjugate(poses(body)[1]), f_W))
            wrench[body] += sign * ca.vertcat(f_W, about)
