"""The compiled variational step: packs a robot into tables and wraps the stepper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from vi_contact import _core
from vi_contact.errors import UnsupportedJointError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.drives import drive_limits
from vi_contact.robot.maximal import rotation_matrices
from vi_contact.robot.pairs import BodyPairs
from vi_contact.robot.parts import WORLD, Array, Connection, JointKind, setting
from vi_contact.robot.robot import Robot


class Status(IntEnum):
    """How a step ended; the values are those of the compiled step."""

    CONVERGED = 0
    MAX_ITERATIONS = 1
    """Newton's iterations ran out before the tolerances were met."""
    ROTATION = 2
    """A body turns farther than a step may, however often that is halved."""
    SINGULAR = 3
    """A joint has no inertia to move, or the loops cannot be solved for."""
    NOT_FINITE = 4
    """A number overflowed or is not a number."""
    INFEASIBLE = 5
    """IPOPT found no point that satisfies the equations of the step."""
    ZENO = 6
    """Events followed each other without end within the step."""
    WORK_LIMIT = 7
    """The step, in all its parts, took more iterations than a step may."""


@setting("options")
@dataclass(frozen=True)
class SolverOptions:
    """Tolerances of a step."""

    momentum_tolerance: float = 1e-10
    """Largest momentum residual accepted [N s, N m s]; gravity on 1 kg over 1 ms gives 1e-2.

    Where positions are so large that their round-off alone, 1e-15 m |x| / h, is above it, that
    counts. What is left of the momentum is made up for in the next step, so it does not add up.
    """
    velocity_tolerance: float = 1e-9
    """A momentum residual is also accepted below this velocity times the inertia that its
    coordinate moves; relative to 1 m/s or rad/s and the fastest coordinate. The scheme's own error
    at a step of 10 ms is about 1e-6. Zero turns it off.
    """
    closure_tolerance: float = 1e-12
    """Largest loop error accepted [m or rad]; machined joints have a play of 1e-5 m."""
    contact_tolerance: float = 1e-12
    """Largest penetration and slip of a sticking contact accepted [m or rad].

    What is left of the slip is made up for in the next step, so it does not add up.
    """
    max_iterations: int = 30
    """Newton iterations; smooth motion needs one to three."""
    max_halvings: int = 10
    """A step that does not converge is taken in halves, those in halves again, up to so often.

    Zero turns it off: such a step then fails at once.
    """
    max_turn: float = 0.6
    """Farthest turn of a body in a step [rad], of wheels aside; a step that turns one farther is
    taken in halves. The momentum of a turn by phi is that of the speed sin(phi) / h: 6 % less than
    phi / h there, and beyond a quarter turn it falls.
    """
    error_tolerance: float = math.inf
    """Largest error of a step [m or rad]; one with a larger estimate is taken in halves.

    The estimate is the difference between the way that a coordinate goes in a step and that of the
    mean of its velocities before and after it. Infinite: steps are not refined.
    """


def pack(
    robot: Robot,
    ground: Ground | None = None,
    joint_limits: bool = False,
    body_pairs: BodyPairs | None = None,
) -> _core.Model:
    """The compiled model of a robot: every part as a row of numbers."""
    link_numbers, link_values = [], []
    wheels = {wheel.joint for wheel in robot.wheels}
    for i, (joint, body) in enumerate(zip(robot.joints, robot.bodies, strict=True)):
        com_parent = robot.bodies[joint.parent].com if joint.parent != WORLD else np.zeros(3)
        if joint.kind in (JointKind.FLOATING, JointKind.PLANAR) and np.any(joint.armature):
            raise UnsupportedJointError(
                f"joint '{joint.name}' is {joint.kind.name.lower()} and has rotor inertia; only "
                "revolute, prismatic and spherical joints can: set model.armature to zero there"
            )
        if joint_limits and joint.nv > 1 and np.any(joint.friction):
            raise UnsupportedJointError(
                f"joint '{joint.name}' is {joint.kind.name.lower()} and has Coulomb friction; only "
                "joints with one coordinate can: set model.upperDryFrictionLimit to zero there, or "
                "leave out friction and limits with joint_limits=False"
            )
        link_numbers.append(
            [
                joint.parent, int(joint.kind), joint.nv, joint.idx_v, joint.idx_q,
                int(joint.continuous), joint.nq, i in wheels,
            ]
        )  # fmt: skip
        link_values.append(
            np.concatenate(
                [
                    joint.frame_parent.p + com_parent, joint.frame_parent.quat_xyzw, joint.axis,
                    [body.mass], body.com, body.inertia.ravel(),
                ]
            )
        )  # fmt: skip
    contacts = robot.contacts if ground is not None else ()
    standard = ground.friction if ground is not None else 0.0
    frictions = [standard if c.friction is None else c.friction for c in contacts]
    model = _core.make_model(
        _integers(link_numbers, 8),
        _numbers(link_values, 23),
        _numbers(_drives(robot, joint_limits), 12),
        _integers([[loop.parent, loop.child, int(loop.kind)] for loop in robot.loops], 3),
        _numbers([_frames(loop) for loop in robot.loops], 20),
        _integers([[mimic.joint, mimic.source] for mimic in robot.mimics], 2),
        _numbers([[mimic.multiplier, mimic.offset] for mimic in robot.mimics], 2),
        _integers([[spring.body_1, spring.body_2] for spring in robot.springs], 2),
        _numbers(
            [
                np.concatenate(
                    [
                        spring.p_1 + _com(robot, spring.body_1),
                        spring.p_2 + _com(robot, spring.body_2),
                        [spring.stiffness, spring.rest_length, spring.damping],
                    ]
                )
                for spring in robot.springs
            ],
            9,
        ),
        _integers([[contact.body] for contact in contacts], 1),
        _numbers(
            [
                np.concatenate(
                    [contact.p_BC + _com(robot, contact.body), [contact.radius, friction]]
                )
                for contact, friction in zip(contacts, frictions, strict=True)
            ],
            5,
        ),
    )
    if body_pairs:
        _add_shapes(model, body_pairs)
    return model


def _add_shapes(model: _core.Model, body_pairs: BodyPairs) -> None:
    for shape in body_pairs.shapes:
        R_LS = rotation_matrices(shape.placement.quat_xyzw)
        convex = shape.convex
        model.add_shape(
            shape.body,
            shape.placement.vector,
            convex.radius,
            convex.vertices @ R_LS.T + shape.placement.p,
            convex.edges.astype(np.int32),
            convex.faces,
            convex.normals @ R_LS.T,
        )
    for shape_1, shape_2, friction, name in body_pairs.pairs:
        model.add_pair(shape_1, shape_2, friction, name)
    model.set_separator(body_pairs.separator())


def _com(robot: Robot, body: int) -> Array:
    return robot.bodies[body].com if body != WORLD else np.zeros(3)


def _frames(connection: Connection) -> Array:
    return np.concatenate(
        [
            connection.frame_parent.vector, connection.frame_child.vector, connection.axis,
            connection.axis2,
        ]
    )  # fmt: skip


def _drives(robot: Robot, joint_limits: bool) -> list[list[float]]:
    """Per velocity coordinate: its input, its brakes and limits, its motor; see `Drive`."""
    inputs = {int(dof): index for index, dof in enumerate(robot.actuated_dofs)}
    motors = {motor.joint: motor for motor in robot.motors}
    rows: list[list[float]] = []
    for index, joint in enumerate(robot.joints):
        motor = motors.get(index)
        for k in range(joint.nv):
            limits = drive_limits(joint, k, motor)
            rows.append(
                [
                    inputs.get(joint.idx_v + k, -1), joint.damping[k], joint.armature[k],
                    limits.effort, limits.velocity, motor is not None, *limits[2:],
                    *((joint.lower[k], joint.upper[k], joint.friction[k])
                      if joint_limits else (-np.inf, np.inf, 0.0)),
                ]
            )  # fmt: skip
    return rows


def _numbers(rows: list[list[float]] | list[Array] | Array, columns: int) -> Array:
    return np.array(rows, dtype=np.float64).reshape(-1, columns)


def _integers(
    rows: list[list[int]], columns: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(rows, dtype=np.int32).reshape(-1, columns)


def make_stepper(
    robot: Robot,
    time_step: float,
    gravity: Array,
    options: SolverOptions,
    ground: Ground | None = None,
    joint_limits: bool = False,
    body_pairs: BodyPairs | None = None,
) -> _core.Stepper:
    """The compiled stepper of a robot; arguments are trusted."""
    return _core.Stepper(
        pack(robot, ground, joint_limits, body_pairs),
        time_step,
        gravity,
        options.momentum_tolerance,
        options.velocity_tolerance,
        options.closure_tolerance,
        options.max_iterations,
        options.max_halvings,
        options.max_turn,
        options.error_tolerance,
        options.contact_tolerance,
        None if ground is None else ground.numbers,
    )
