r"""The discrete Lagrangian of a robot in maximal coordinates, and the step's balance of momentum.

Over an interval of length h from node 0 to node 1, with :math:`e = \mathrm{vec}(Q_0^* Q_1)`,

.. math:: L_d = \sum_\mathrm{bodies} \frac{m}{2h} |x_1 - x_0|^2 + \frac{2}{h} e^\top J e
   + \sum_\mathrm{joints} \frac{A}{2h} (\theta_1 - \theta_0)^2 - \frac{h}{2} (V(q_0) + V(q_1))

with the potential V of gravity (for springs see `springs.py`) and the rotor inertia A (of a
spherical joint as of a body: :math:`\frac{2}{h} u^\top A u`, u the vector part of its turn). A
wheel, which may turn by any angle d in a step, has its inertia J, symmetric about the axis a, on
the body that carries it:
:math:`\frac{2}{h} e^\top J e + \frac{2}{h} A d\, a^\top e + \frac{A}{2h} d^2`
with e of the carrier and A about the axis; what is not symmetric turns with the wheel as with any
body.

Momenta at the two ends are its derivatives, :math:`-D_1 L_d` and :math:`D_2 L_d`, with respect to
(dx in world axes, dphi in body axes) of every body; here CasADi differentiates. Forces act as half
impulses at both ends, joint torques as equal and opposite wrenches on the two bodies.

The compiled step is this, solved in the joints' coordinates; tests hold it against these lines. The
program that IPOPT solves is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import casadi as ca

from vi_contact.mechanics import springs
from vi_contact.mechanics.joints import angle_or_travel, constraint
from vi_contact.mechanics.rotations import (
    Expression,
    attitude_jacobian,
    conjugate,
    product,
    rotate,
)
from vi_contact.robot.maximal import rotation_matrices
from vi_contact.robot.parts import WORLD, Array, Connection, Joint, JointKind, Spring
from vi_contact.robot.robot import Robot
from vi_contact.robot.wheels import Wheel

Poses: TypeAlias = Callable[[int], tuple[Expression, Expression]]
"""Position and quaternion of a body, by its index."""
Wrenches: TypeAlias = list[Expression] | dict[int, Expression]
"""(6,) per body: force in world axes, torque in body axes."""
ONE_COORDINATE = (JointKind.REVOLUTE, JointKind.PRISMATIC)


def kinetic(
    robot: Robot, left: Poses, right: Poses, h: Expression, about: Expression | None = None
) -> Expression:
    """Kinetic part of the discrete Lagrangian [J s]; about: see `balance`."""
    action = ca.SX(0)
    wheels = {wheel.joint: wheel for wheel in robot.wheels}
    for i, body in enumerate(robot.bodies):
        (x0, _), (x1, _) = left(i), right(i)
        e, inertia = _turn(left, right, i), body.inertia
        action += body.mass / (2.0 * h) * ca.sumsqr(x1 - x0)
        if i in wheels:
            inertia = inertia - wheels[i].symmetric(robot.joints[i].axis)
            action += _spin(robot.joints[i], wheels[i], left, right, h, _about(about, i))
        action += 2.0 / h * ca.dot(e, ca.DM(inertia) @ e)
    for i, joint in enumerate(robot.joints):
        if joint.kind in ONE_COORDINATE and joint.armature[0] > 0.0:
            moved = increment(joint, left, right, _about(about, i))
            action += joint.armature[0] / (2.0 * h) * moved**2
        elif joint.kind is JointKind.SPHERICAL and joint.armature.any():
            u = 0.5 * increment(joint, left, right)
            action += 2.0 / h * ca.dot(u, ca.DM(joint.armature) * u)
    return action


def _turn(left: Poses, right: Poses, body: int) -> Expression:
    """(3,) vector part of a body's turn in its own axes, the nearer way round."""
    turn = product(conjugate(left(body)[1]), right(body)[1])
    return ca.if_else(turn[3] >= 0.0, 1.0, -1.0) * turn[:3]


def _spin(
    joint: Joint, wheel: Wheel, left: Poses, right: Poses, h: Expression, about: Expression
) -> Expression:
    """The symmetric part of a wheel in the discrete Lagrangian [J s]."""
    d = increment(joint, left, right, about)
    action = wheel.axial / (2.0 * h) * d**2
    if joint.parent == WORLD:
        return action
    R_AF = rotation_matrices(joint.frame_parent.quat_xyzw)
    e = _turn(left, right, joint.parent)
    inertia = R_AF @ wheel.symmetric(joint.axis) @ R_AF.T
    action += 2.0 / h * ca.dot(e, ca.DM(inertia) @ e)
    return action + 2.0 / h * wheel.axial * d * ca.dot(ca.DM(R_AF @ joint.axis), e)


def _about(about: Expression | None, joint: int) -> Expression:
    return 0.0 if about is None else about[joint]


def potential(robot: Robot, poses: Poses, gravity: Expression) -> Expression:
    """Of gravity [J]; gravity (3,) [m/s2]."""
    energy = ca.SX(0)
    for i, body in enumerate(robot.bodies):
        energy -= body.mass * ca.dot(gravity, poses(i)[0])
    return energy


def step_balance(
    robot: Robot, time_step: float, gravity: Array, about: Array | None = None
) -> ca.Function:
    """Momentum balance of one step in maximal coordinates; about: see `balance`.

    Inputs: x0, quat0, x1, quat1 of all bodies, (3, n) and (4, n); torque (nv,) of the joints;
    wrenches (6, n), world axes at the centres of mass; multipliers (m,), impulses of all joints'
    and loops' rows at the left node and of the springs' at either node. Outputs, (6 n,), columns
    (dx world, dphi body) per body: `left`, the momentum that node 0 must have, and `right`, the
    momentum that node 1 then has.
    """
    n = len(robot.bodies)
    x0, x1 = ca.SX.sym("x0", 3, n), ca.SX.sym("x1", 3, n)
    quat0, quat1 = ca.SX.sym("quat0", 4, n), ca.SX.sym("quat1", 4, n)
    torque, wrenches = ca.SX.sym("torque", robot.nv), ca.SX.sym("wrenches", 6, n)
    multipliers = ca.SX.sym("multipliers", row_count(robot))
    ends = balance(
        robot, (x0, quat0), (x1, quat1), torque, wrenches, multipliers, time_step, ca.DM(gravity),
        about=None if about is None else ca.DM(about),
    )  # fmt: skip
    return ca.Function(
        "step_balance",
        [x0, quat0, x1, quat1, torque, wrenches, multipliers],
        list(ends),
        ["x0", "quat0", "x1", "quat1", "torque", "wrenches", "multipliers"],
        ["left", "right"],
    )


def balance(
    robot: Robot,
    node0: tuple[Expression, Expression],
    node1: tuple[Expression, Expression],
    torque: Expression,
    wrenches: Expression,
    multipliers: Expression,
    h: Expression,
    gravity: Expression,
    leaned: Expression | None = None,
    about: Expression | None = None,
    rule: Expression | None = None,
) -> tuple[Expression, Expression]:
    """`left` and `right` of `step_balance` as expressions; nodes are symbols (3, n) and (4, n).

    leaned: (nv,) impulses of the joints at the left node alone, see `drives.lean`.
    about: (joints,) angles within half a turn of which revolute joints move; zero if not given.
    rule: (rows, 5) of springs, see `springs.py`; the midpoint if not given.
    """
    rule = springs.midpoint(robot) if rule is None else rule
    n, constraints = len(robot.bodies), constraint_count(robot)
    left, right = poses_of(*node0), poses_of(*node1)
    action = kinetic(robot, left, right, h, about)
    action -= h / 2.0 * (potential(robot, left, gravity) + potential(robot, right, gravity))

    def force(poses: Poses) -> Expression:
        """Impulses of half the interval on the bodies, directions of one node."""
        wrench = [ca.SX.zeros(6) for _ in range(n)]
        for i in range(n):
            turned = rotate(conjugate(poses(i)[1]), wrenches[3:, i])
            wrench[i] += h / 2.0 * ca.vertcat(wrenches[:3, i], turned)
        for i, joint in enumerate(robot.joints):
            effort = torque[joint.idx_v : joint.idx_v + joint.nv]
            if joint.damping.any():
                way = (
                    increment(joint, left, right, _about(about, i))
                    if poses is left
                    else -increment(joint, right, left, -_about(about, i))
                )
                effort -= ca.DM(joint.damping) * way / h
            impulse = h / 2.0 * effort
            if leaned is not None and poses is left:
                impulse += leaned[joint.idx_v : joint.idx_v + joint.nv]
            add_joint_force(joint, poses, impulse, wrench)
        for i, (spring, pull) in enumerate(springs.all_pulls(robot, left, right, h, rule)):
            impulse, at_left = multipliers[constraints + i], poses is left
            share, carried = rule[i, 1 if at_left else 3], rule[i, 2 if at_left else 4]
            direction = pull.left if at_left else pull.right
            _add_pull(spring, poses, (share * impulse + carried) * direction, wrench)
        return ca.vertcat(*wrench)

    by_left, by_right = _derivative(action, *node0), _derivative(action, *node1)
    closing = _derivative(ca.dot(multipliers[:constraints], rows(robot, left)), *node0)
    return -by_left - force(left) - closing, by_right + force(right)


def step_jacobian(
    robot: Robot, time_step: float, gravity: Array, about: Array | None = None
) -> ca.Function:
    """(6 n, 6 n): change of `left` of `step_balance` with the poses at node 1; same inputs."""
    balance = step_balance(robot, time_step, gravity, about)
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
def poses_of(x: Expression, quat: Expression) -> Poses:
    """The pose of body i from columns i of x (3, n) and quat (4, n); the world's is the origin."""

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


def row_count(robot: Robot) -> int:
    """Rows of all constraints, then of springs."""
    return constraint_count(robot) + sum(map(springs.row_count, robot.springs))


def constraint_count(robot: Robot) -> int:
    """Rows of joints, loops and mimic joints."""
    return sum(part.kind.rows for part in (*robot.joints, *robot.loops)) + len(robot.mimics)


def rows(
    robot: Robot, poses: Poses, coordinate: Callable[[Joint], Expression] | None = None
) -> Expression:
    """Constraints of the tree's joints, then of the loops, then of the mimic joints [m or rad].

    `coordinate` gives the angle or travel of a joint that mimics or is mimicked; without it angles
    are those in (-pi, pi].
    """
    known = coordinate or (lambda joint: _coordinate(joint, poses))
    parts = [constraint(part, *_ends(part, poses)) for part in (*robot.joints, *robot.loops)]
    for mimic in robot.mimics:
        followed = mimic.multiplier * known(robot.joints[mimic.source]) + mimic.offset
        parts.append(known(robot.joints[mimic.joint]) - followed)
    return ca.vertcat(ca.SX(0, 1), *parts)


def _relative(joint: Joint, poses: Poses) -> tuple[Expression, Expression]:
    """Displacement and quaternion of G in F."""
    p_WA, quat_WA, p_WB, quat_WB = _ends(joint, poses)
    quat_WF = product(quat_WA, ca.DM(joint.frame_parent.quat_xyzw))
    quat_WG = product(quat_WB, ca.DM(joint.frame_child.quat_xyzw))
    p_WF = p_WA + rotate(quat_WA, ca.DM(joint.frame_parent.p))
    p_WG = p_WB + rotate(quat_WB, ca.DM(joint.frame_child.p))
    back = conjugate(quat_WF)
    return rotate(back, p_WG - p_WF), product(back, quat_WG)


def increment(joint: Joint, start: Poses, end: Poses, about: Expression = 0.0) -> Expression:
    """(nv,) how a joint moves from one node to the other, in the axes of the child at the start.

    Rotations give 2 vec(r0* r1), an angle about one axis gives itself: that within half a turn of
    `about`, where the joint is revolute.
    """
    (d0_F, r0), (d1_F, r1) = _relative(joint, start), _relative(joint, end)
    turn = product(conjugate(r0), r1)
    moved = rotate(conjugate(r0), d1_F - d0_F)
    match joint.kind:
        case JointKind.REVOLUTE:
            back = ca.vertcat(-ca.sin(about / 2.0) * ca.DM(joint.axis), ca.cos(about / 2.0))
            return about + _angle(joint.axis, product(turn, back))
        case JointKind.PRISMATIC:
            return ca.dot(ca.DM(joint.axis), d1_F - d0_F)
        case JointKind.SPHERICAL:
            return 2.0 * turn[:3]
        case JointKind.PLANAR:
            return ca.vertcat(moved[:2], _angle(joint.axis, turn))
        case _:
            return ca.vertcat(moved, 2.0 * turn[:3])


def _angle(axis: Array, turn: Expression) -> Expression:
    """Of a quaternion about a known axis, in (-pi, pi]."""
    sign = ca.if_else(turn[3] >= 0.0, 1.0, -1.0)
    return 2.0 * ca.atan2(sign * ca.dot(ca.DM(axis), turn[:3]), sign * turn[3])


def add_joint_force(joint: Joint, poses: Poses, effort: Expression, wrench: Wrenches) -> None:
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


def _add_pull(spring: Spring, poses: Poses, f_W: Expression, wrench: Wrenches) -> None:
    """Adds an impulse on point 2 of a spring, and its reaction on point 1."""
    ends = ((spring.body_1, spring.p_1, -1.0), (spring.body_2, spring.p_2, 1.0))
    for body, p, sign in ends:
        if body != WORLD:
            about = ca.cross(ca.DM(p), rotate(conjugate(poses(body)[1]), f_W))
            wrench[body] += sign * ca.vertcat(f_W, about)
