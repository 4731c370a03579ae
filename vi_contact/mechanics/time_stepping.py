r"""The step as the nonlinear program of paper 002, section IV, in blocks.

Unknowns are the poses of all bodies at the end of the step, with unit quaternions as constraints,
and the impulses of joints, loops, contacts, joint limits and joint friction. Every block (the robot
itself, one contact, one limit) gives rows that are added to the balance of momentum of its bodies,
and rows of its own; CasADi gives their exact sparse Jacobian and Hessian. A program is the robot's
block with any number of others.

Everything is scaled so that numbers are of the order one: poses are increments over the step in a
unit of length, impulses in a unit of impulse; see `Scales`.

Corrections to print (paper 002), besides those in `contact.py`:

- (27)-(31), (49): the momentum of node k, :math:`p_k = D_2 L_d + \frac{h}{2} F` of the step before,
  is carried as a number, and (49) becomes :math:`p_k + D_1 L_d + \frac{h}{2} F + \dots = 0`. F is
  the force of an interval, half at either end, not a sample at nodes: second order. A start from
  (q, v) needs no configuration before it.
- (49): :math:`\partial c/\partial q` carries G/2 in its rotational columns.
- (23)-(25): a joint torque is a pure couple, without forces.
- (3): limits of motors are those of `drives.py`, not symmetric.
- (19): rows of loops may be redundant (23 of rank 22 for the Fly-Hopper). The Tikhonov term in (32)
  makes their multipliers unique, not IPOPT's matrix regular; so those rows yield by `compliance`
  times their multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from vi_contact.mechanics import contact, springs
from vi_contact.mechanics.discrete_lagrangian import (
    Poses,
    add_joint_force,
    balance,
    constraint_count,
    increment,
    poses_of,
    row_count,
    rows,
)
from vi_contact.mechanics.drives import drive_torque, lean
from vi_contact.mechanics.rotations import Expression
from vi_contact.robot.parts import WORLD, Array, Joint
from vi_contact.robot.robot import Robot

POSE = 7
"""Numbers of a pose: position, quaternion x y z w."""
WRENCH = 6
"""Rows of a body's balance of momentum: along world axes, about body axes."""
DRIVE = 8
"""Numbers of a drive: torque asked for; error, speed, stiffness and damping of a servo; alpha,
theta and the feedback of the last step, see `drives.lean`."""


@dataclass(frozen=True)
class Scales:
    """Units of a program, and its small numbers: the first parameters of every block."""

    h: float
    """Time step [s]."""
    impulse: float
    """[N s]."""
    length: float
    """[m], of angles [rad]."""
    smoothing: float
    """Of the norm in the friction cone."""
    compliance: float
    """Of the rows of loops, in units of length per impulse."""

    @property
    def numbers(self) -> Array:
        """(5,) in the order of the fields."""
        return np.array([self.h, self.impulse, self.length, self.smoothing, self.compliance])


@dataclass(frozen=True)
class Block:
    """Rows of some bodies as functions of their poses at node 1 and of variables of its own.

    Functions take `w` (poses as scaled increments, own variables) and `parameters`; the Hessian
    also `y`, one multiplier per row. Rows: momentum of each body, then own rows, first those that
    vanish, then those that are at least zero.
    """

    values: ca.Function
    jacobian: ca.Function
    hessian: ca.Function
    bodies: int
    lower: Array
    """Of the own variables, 0 or -inf."""
    cost: Array
    """Of the own variables: 1 for slacks."""
    equality: NDArray[np.bool_]
    """Whether an own row vanishes."""

    @property
    def own(self) -> int:
        """Number of variables of its own."""
        return len(self.lower)

    @property
    def gap(self) -> int:
        """The first own row that is an inequality: of contacts and limits, their gap."""
        return int(self.equality.sum())


class _Builder:
    """Symbols of one block: poses of some bodies at both nodes, scales, own variables."""

    def __init__(self, count: int) -> None:
        self.count = count
        scales = ca.SX.sym("scales", 5)
        self.h, self.impulse, self.length, self.smoothing, self.compliance = ca.vertsplit(scales)
        self.x0, self.quat0 = ca.SX.sym("x0", 3, count), ca.SX.sym("quat0", 4, count)
        self.x1, self.quat1 = ca.SX.sym("x1", 3, count), ca.SX.sym("quat1", 4, count)
        self.node0, self.node1 = (self.x0, self.quat0), (self.x1, self.quat1)
        self.left, self.right = poses_of(*self.node0), poses_of(*self.node1)
        self.start, self.end = (ca.vec(ca.vertcat(*node)) for node in (self.node0, self.node1))
        self.own: list[Expression] = []
        self.lower: list[float] = []
        self.cost: list[float] = []
        self.parameters = [scales, self.start]

    def variable(self, size: int, positive: bool = False, cost: float = 0.0) -> Expression:
        symbol = ca.SX.sym("variable", size)
        self.own.append(symbol)
        self.lower += [0.0 if positive else -np.inf] * size
        self.cost += [cost] * size
        return symbol

    def slack(self) -> Expression:
        return self.variable(1, positive=True, cost=1.0)

    def parameter(self, *shape: int) -> Expression:
        symbol = ca.SX.sym("parameter", *shape)
        self.parameters.append(ca.vec(symbol))
        return symbol

    def block(self, name: str, momentum: Expression, zero: Expression, above: Expression) -> Block:
        """Momentum in [N s]; the other rows as scaled by the caller."""
        increments = ca.SX.sym("increments", POSE * self.count)
        outcome = ca.vertcat(momentum / self.impulse, zero, above)
        [outcome] = ca.substitute([outcome], [self.end], [self.start + self.length * increments])
        w, p = ca.vertcat(increments, *self.own), ca.vertcat(*self.parameters)
        y = ca.SX.sym("y", outcome.shape[0])
        curvature = ca.tril(ca.hessian(ca.dot(y, outcome), w)[0])
        return Block(
            ca.Function(name, [w, p], [outcome]),
            ca.Function(f"{name}_jacobian", [w, p], [ca.jacobian(outcome, w)]),
            ca.Function(f"{name}_hessian", [w, p, y], [curvature]),
            self.count,
            np.array(self.lower),
            np.array(self.cost),
            np.array([True] * zero.shape[0] + [False] * above.shape[0], dtype=bool),
        )


# ---------------------------------------------------------------------------------- the robot
def robot_block(robot: Robot) -> Block:
    """Balance of momentum, unit quaternions, joints, loops and mimic joints.

    Own variables: multipliers (m,). Own rows: norms (n,), constraints and springs (m,).
    Parameters after scales and poses at node 0: gravity (3,), momentum of node 0 (n, 6), drives
    (nv, 8), wrenches (n, 6) in world axes at the centres of mass, coordinates of joints with one
    (joints,), angles near which they move over the step (joints,), rules of springs (rows, 5); each
    row by row.
    """
    b = _Builder(len(robot.bodies))
    multipliers = b.variable(row_count(robot))
    gravity, momentum = b.parameter(3), b.parameter(WRENCH * b.count)
    drives, wrenches = b.parameter(DRIVE, robot.nv), b.parameter(WRENCH, b.count)
    coordinates, about = b.parameter(len(robot.joints)), b.parameter(len(robot.joints))
    torque, leaned = _torques(robot, drives, b, about)
    count = constraint_count(robot)
    rule = b.parameter(springs.RULE, row_count(robot) - count).T
    left, _ = balance(
        robot, b.node0, b.node1, torque, wrenches, multipliers * b.impulse, b.h, gravity, leaned,
        about, rule,
    )  # fmt: skip

    def coordinate(joint: Joint) -> Expression:
        return coordinates[joint.child] + increment(joint, b.left, b.right, about[joint.child])

    norms = [ca.sumsqr(b.quat1[:, i]) - 1.0 for i in range(b.count)]
    tree = sum(joint.kind.rows for joint in robot.joints)  # only rows after them can be redundant
    yielding = b.compliance * ca.vertcat(ca.SX.zeros(tree), multipliers[tree:count])
    closed = rows(robot, b.right, coordinate) / b.length + yielding
    pulls = springs.all_pulls(robot, b.left, b.right, b.h, rule)
    stretched = [
        b.h * pull.compliance * (multipliers[count + i] * b.impulse - pull.law) / b.length
        for i, (_, pull) in enumerate(pulls)
    ]
    zero = ca.vertcat(ca.vertcat(*norms) / b.length, closed, *stretched)
    return b.block("robot", left - momentum, zero, ca.SX(0, 1))


def end_of_step(robot: Robot) -> ca.Function:
    """(6 n,) momentum of node 1.

    Inputs: h, gravity (3,), poses at both nodes (7 n,), drives (8 nv,), wrenches (6 n,), angles
    near which joints move (joints,), impulses of springs (their rows,), their rules (5 rows,).
    """
    b = _Builder(len(robot.bodies))
    gravity, drives = ca.SX.sym("gravity", 3), ca.SX.sym("drives", DRIVE, robot.nv)
    wrenches = ca.SX.sym("wrenches", WRENCH, b.count)
    about, tree = ca.SX.sym("about", len(robot.joints)), constraint_count(robot)
    count = row_count(robot) - tree
    pulls, rule = ca.SX.sym("pulls", count), ca.SX.sym("rule", springs.RULE, count)
    torque, _ = _torques(robot, drives, b, about)
    momentum = balance(
        robot, b.node0, b.node1, torque, wrenches, ca.vertcat(ca.SX.zeros(tree), pulls), b.h,
        gravity, about=about, rule=rule.T,
    )[1]  # fmt: skip
    inputs = [
        b.h, gravity, b.start, b.end, ca.vec(drives), ca.vec(wrenches), about, pulls, ca.vec(rule)
    ]  # fmt: skip
    return ca.Function("end_of_step", inputs, [momentum])


def start_momentum(robot: Robot) -> ca.Function:
    """(6 n,) momentum of bodies and rotors; inputs: poses (7 n,), twists (6 n,), v (nv,).

    Twists: velocity in world, angular velocity in body axes, of each body.
    """
    b = _Builder(len(robot.bodies))
    twists, v = ca.SX.sym("twists", WRENCH, b.count), ca.SX.sym("v", robot.nv)
    momentum = [
        ca.vertcat(body.mass * twists[:3, i], ca.DM(body.inertia) @ twists[3:, i])
        for i, body in enumerate(robot.bodies)
    ]
    for joint in robot.joints:
        if joint.armature.any():
            rotor = ca.DM(joint.armature) * v[joint.idx_v : joint.idx_v + joint.nv]
            add_joint_force(joint, b.left, rotor, momentum)
    return ca.Function("start_momentum", [b.start, ca.vec(twists), v], [ca.vertcat(*momentum)])


def _torques(
    robot: Robot, drives: Expression, b: _Builder, about: Expression
) -> tuple[Expression, Expression]:
    """(nv,) torques of all drives and their servos, within their limits; (nv,) leaned impulses.

    See `drives.lean`.
    """
    motors = {motor.joint: motor for motor in robot.motors}
    torques, leaned = [ca.SX(0, 1)], [ca.SX(0, 1)]
    for i, joint in enumerate(robot.joints):
        still = not joint.actuated and not joint.damping.any()
        moved = ca.SX.zeros(joint.nv) if still else increment(joint, b.left, b.right, about[i])
        for k in range(joint.nv):
            numbers = ca.vertsplit(drives[:, joint.idx_v + k])
            given, error, speed, stiffness, damping, alpha, theta, before = numbers
            now = moved[k] / b.h
            torque, feedback = ca.SX(0), -float(joint.damping[k]) * now
            if joint.actuated:
                asked = given + damping * (speed - now)
                if joint.nv == 1:
                    asked += stiffness * (error - alpha * moved[k])
                torque = drive_torque(joint, k, motors.get(i), asked, now)
                feedback += torque - drive_torque(joint, k, motors.get(i), given, now)
            torques.append(torque)
            leaned.append(lean(theta, feedback, before, b.h))
    return ca.vertcat(*torques), ca.vertcat(*leaned)


# ---------------------------------------------------------------------------------- contacts
def contact_block(rough: bool) -> Block:
    """One contact with the ground, with friction or without.

    Own variables: n, slack of the gap; e (2), psi, slack of friction. Own rows: maximum dissipation
    (2); gap, its complementarity, cone, its complementarity.
    Parameters after scales and the pose at node 0: p_BC (3), radius, mu, plane (4), tangents (2, 3)
    row by row, anchor (2): slip left over from the step before, target: gap to reach, unit of n
    [N s].
    """
    b = _Builder(1)
    n, slack = b.variable(1, positive=True), b.slack()
    p_BC, radius, mu, plane = b.parameter(3), b.parameter(1), b.parameter(1), b.parameter(4)
    tangents = b.parameter(3, 2).T
    anchor, target, unit = b.parameter(2), b.parameter(1), b.parameter(1)
    normal = plane[:3]
    push, zero = n * normal, ca.SX(0, 1)
    distance = (contact.gap(b.x1, b.quat1, p_BC, radius, plane) - target) / b.length
    above = contact.unilateral(distance, n, slack)
    if rough:
        e, psi, slack_friction = b.variable(2), b.variable(1, positive=True), b.slack()
        moved = contact.slip(b.node0, b.node1, p_BC, radius, normal, tangents) + anchor
        zero, cone = contact.friction(e, moved / b.length, psi, slack_friction, b.smoothing)
        push, above = push + mu * n * (tangents.T @ e), ca.vertcat(above, cone)
    momentum = -contact.wrench(b.quat0, p_BC, radius, normal, unit * push)
    return b.block("contact", momentum, zero, above)


# ---------------------------------------------------------------------------------- joints
def limit_block(joint: Joint) -> Block:
    """A limit of a joint with one coordinate.

    Own variables: n, slack. Parameters after scales and poses: coordinate at node 0, the limit, its
    side: 1 for a lower, -1 for an upper one, unit of n [N s or N m s].
    """
    b, left, right = _joint_builder(joint)
    n, slack = b.variable(1, positive=True), b.slack()
    start, limit, side, unit = (b.parameter(1) for _ in range(4))
    distance = side * (start + increment(joint, left, right) - limit) / b.length
    momentum = _joint_momentum(joint, left, side * n * unit)
    return b.block("limit", momentum, ca.SX(0, 1), contact.unilateral(distance, n, slack))


def joint_friction_block(joint: Joint) -> Block:
    """Coulomb friction of a joint with one coordinate.

    Own variables: e, the part of the largest impulse, psi, slack. Parameters after scales and
    poses: the largest impulse [N m s], and what is left over of the increment before.
    """
    b, left, right = _joint_builder(joint)
    e, psi, slack = b.variable(1), b.variable(1, positive=True), b.slack()
    bound, anchor = b.parameter(1), b.parameter(1)
    moved = (increment(joint, left, right) + anchor) / b.length
    still, cone = contact.friction(e, moved, psi, slack, b.smoothing)
    return b.block("friction", _joint_momentum(joint, left, e * bound), still, cone)


def joint_bodies(joint: Joint) -> list[int]:
    """The bodies of a joint's block: the child, and the parent unless that is the world."""
    return [joint.child] if joint.parent == WORLD else [joint.child, joint.parent]


def _joint_builder(joint: Joint) -> tuple[_Builder, Poses, Poses]:
    bodies = joint_bodies(joint)
    b = _Builder(len(bodies))

    def of(poses: Poses) -> Poses:
        return lambda body: poses(WORLD if body == WORLD else bodies.index(body))

    return b, of(b.left), of(b.right)


def _joint_momentum(joint: Joint, left: Poses, impulse: Expression) -> Expression:
    wrenches = {body: ca.SX.zeros(WRENCH) for body in joint_bodies(joint)}
    add_joint_force(joint, left, impulse, wrenches)
    return -ca.vertcat(*wrenches.values())
