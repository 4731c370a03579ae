"""Closing loops: configurations in which every loop joint and every mimic joint holds."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from vi_contact import _core
from vi_contact.errors import JointNotFoundError, LoopClosureError
from vi_contact.robot.parts import WORLD, Array, Joint, JointKind

if TYPE_CHECKING:
    from vi_contact.robot.robot import Robot

_log = logging.getLogger("vi_contact")

CLOSURE_TOLERANCE = 1e-12
"""Largest loop error of a closed configuration [m or rad]; round-off of metres is 1e-16."""

STEPS = 200
"""Newton steps before a start is given up; a good start needs fewer than ten."""

STUCK = 0.999
"""A step that leaves more of the closure error than this ends the attempt."""

RESTARTS = 48
"""Further starts, spread ever wider about the given one, before a loop is called open."""

LOOKS = 24
"""Further starts for a configuration inside the limits once one outside is known."""

RANK_TOLERANCE = 1e-8
"""Singular values below this, times the largest if that is above 1, count as zero [m or rad]."""

LARGEST_TURN = 0.5
"""Longest Newton step in joints that turn a part of a loop [rad]: sines are not linear beyond."""


@dataclass(frozen=True)
class Mobility:
    """How many constraints a robot has, how many are independent, and what motion is left."""

    rows: int
    """Scalar constraints of all joints, loop joints and mimic joints in maximal coordinates."""
    rank: int
    """How many of them are independent."""
    degrees_of_freedom: int

    @property
    def redundant(self) -> int:
        return self.rows - self.rank


def closure_rows(robot: Robot, q: Array) -> tuple[Array, Array]:
    """(m,) errors of loop joints, then mimic joints, and (m, nv) their Jacobian for v."""
    maximal = robot.to_maximal(q)
    data = robot.data
    pin.computeJointJacobians(robot.model, data, q)

    def body(index: int) -> tuple[Array, Array, Array]:
        """Position, quaternion, and the map from v to (v_WB, w_WB_B)."""
        if index == WORLD:
            return np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.zeros((6, robot.nv))
        local = pin.getJointJacobian(robot.model, data, index + 1, pin.ReferenceFrame.LOCAL)
        local = local.reshape(6, -1)  # pinocchio gives one column as a vector
        com = robot.bodies[index].com
        R_WB = data.oMi[index + 1].rotation
        linear = R_WB @ (local[:3] - pin.skew(com) @ local[3:])
        return maximal.p_WB[index], maximal.quat_WB_xyzw[index], np.vstack([linear, local[3:]])

    errors: list[Array] = [np.zeros(0)]
    jacobians: list[Array] = [np.zeros((0, robot.nv))]
    for loop in robot.loops:
        p_WA, quat_WA, jacobian_A = body(loop.parent)
        p_WB, quat_WB, jacobian_B = body(loop.child)
        error, by_A, by_B = _core.joint_constraint(
            int(loop.kind), p_WA, quat_WA, p_WB, quat_WB,
            loop.frame_parent.vector, loop.frame_child.vector, loop.axis, loop.axis2,
        )  # fmt: skip
        errors.append(error)
        jacobians.append(by_A @ jacobian_A + by_B @ jacobian_B)
    for mimic in robot.mimics:
        joint, source = robot.joints[mimic.joint], robot.joints[mimic.source]
        followed = mimic.multiplier * robot.joint_position(q, mimic.source) + mimic.offset
        gap = robot.joint_position(q, mimic.joint) - followed
        if _turns_drop_out(joint, source, mimic.multiplier):
            gap = (gap + np.pi) % (2.0 * np.pi) - np.pi
        row = np.zeros((1, robot.nv))
        row[0, joint.idx_v] = 1.0
        row[0, source.idx_v] -= mimic.multiplier
        errors.append(np.array([gap]))
        jacobians.append(row)
    return np.concatenate(errors), np.vstack(jacobians)


def _turns_drop_out(joint: Joint, source: Joint, multiplier: float) -> bool:
    """Whether full turns of a continuous joint, which q does not tell, do not matter to a mimic."""
    if joint.continuous:
        return True
    whole = float(multiplier).is_integer()
    return source.continuous and joint.kind is JointKind.REVOLUTE and whole


def closure_names(robot: Robot) -> list[str]:
    """The loop or mimic joint behind each row of `closure_rows`."""
    rows = [loop.name for loop in robot.loops for _ in range(loop.kind.rows)]
    return rows + [robot.joints[mimic.joint].name for mimic in robot.mimics]


def close_loops(robot: Robot, q: Array, fixed: Sequence[str]) -> Array:
    """A closed configuration near q with the joints named in `fixed` held.

    Its joint-space distance to q is a local minimum under the closure equations, reached from q.
    Joint limits are kept where a closed configuration within them is found; else a warning is
    logged.
    """
    held: set[int] = set()
    for name in fixed:
        if name not in robot.joint_names:
            raise JointNotFoundError(name, robot.joint_names, f"robot '{robot.name}'")
        joint = robot.joints[robot.joint_names.index(name)]
        held.update(range(joint.idx_v, joint.idx_v + joint.nv))

    if np.abs(closure_rows(robot, q)[0]).max(initial=0.0) <= CLOSURE_TOLERANCE:
        return q
    rng = np.random.default_rng(0)
    outside, attempts = None, RESTARTS
    for attempt in range(RESTARTS + 1):
        if attempt > attempts:
            break
        start = _restart(robot, q, held, min(0.1 * attempt, 1.5), rng) if attempt else q
        if outside is not None:  # a quick look first: is the next one inside the limits?
            start = _newton(robot, start, held)
            if len(beyond_limits(robot, start, held)):
                continue
        closed = _nearest(robot, q, start, held)
        if closed is None:
            continue
        inside = _nearest_within_limits(robot, q, closed, held)
        if inside is not None:
            return inside
        if outside is None:
            outside, attempts = closed, min(attempt + LOOKS, RESTARTS)
    if outside is not None:
        names = [robot.joints[k].name for k in beyond_limits(robot, outside, held)]
        _log.warning(
            "robot '%s': no closed configuration within the limits was found; beyond them: %s",
            robot.name,
            ", ".join(names),
        )
        return outside
    error = np.abs(closure_rows(robot, _newton(robot, q, held))[0])
    gaps: dict[str, float] = {}
    for name, value in zip(closure_names(robot), error, strict=True):
        if value > CLOSURE_TOLERANCE:
            gaps[name] = max(gaps.get(name, 0.0), float(value))
    raise LoopClosureError(robot.name, gaps, fixed)


def beyond_limits(robot: Robot, q: Array, held: Collection[int] = ()) -> list[int]:
    """Indices of the joints, held ones aside, that are outside their limits."""
    return [
        k
        for k, joint in enumerate(robot.joints)
        if joint.nq == 1
        and joint.idx_v not in held
        and not joint.lower[0] - 1e-9 <= q[joint.idx_q] <= joint.upper[0] + 1e-9
    ]


def _restart(
    robot: Robot, q: Array, held: Collection[int], spread: float, rng: np.random.Generator
) -> Array:
    """A start about q and inside the limits; a base moves only if a loop ties it to the world."""
    nudge = rng.normal(size=robot.nv) * spread
    nudge[list(held)] = 0.0
    if not any(WORLD in (loop.parent, loop.child) for loop in robot.loops):
        nudge[robot.base_dofs] = 0.0
    return _clip(robot, pin.integrate(robot.model, q, nudge), held)


def _distance(robot: Robot, q0: Array, q1: Array) -> float:
    return float(np.linalg.norm(pin.difference(robot.model, q0, q1)))


def _clip(robot: Robot, q: Array, held: Collection[int]) -> Array:
    """q with every joint of one coordinate inside its limits, held joints as they are."""
    q = q.copy()
    for joint in robot.joints:
        if joint.nq == 1 and joint.idx_v not in held:
            q[joint.idx_q] = np.clip(q[joint.idx_q], joint.lower[0], joint.upper[0])
    return q


def _newton(robot: Robot, q: Array, held: Collection[int]) -> Array:
    """Damped Gauss-Newton on the closure error; returns the best configuration found."""
    free = np.array([i not in held for i in range(robot.nv)])
    error, jacobian = closure_rows(robot, q)
    size = np.linalg.norm(error)
    for _ in range(STEPS):
        if np.abs(error).max(initial=0.0) < 0.1 * CLOSURE_TOLERANCE:
            break
        step = np.zeros(robot.nv)
        step[free] = -np.linalg.lstsq(
            jacobian[:, free], error, rcond=_relative_rank_tolerance(jacobian)
        )[0]
        step *= _step_scale(robot, step, error, jacobian)
        for _ in range(30):
            trial = pin.integrate(robot.model, q, step)
            trial_error, trial_jacobian = closure_rows(robot, trial)
            trial_size = np.linalg.norm(trial_error)
            if trial_size < size:
                break
            step *= 0.5
        else:
            break
        stuck = trial_size > STUCK * size
        q, error, jacobian, size = trial, trial_error, trial_jacobian, trial_size
        if stuck:
            break
    return q


def _relative_rank_tolerance(jacobian: Array) -> float:
    """`RANK_TOLERANCE` as a fraction of the largest singular value."""
    return RANK_TOLERANCE * max(1.0, 1.0 / max(float(np.abs(jacobian).max(initial=0.0)), 1e-300))


def _step_scale(robot: Robot, step: Array, error: Array, jacobian: Array) -> float:
    """Shortens a step that turns loops by more than can be foreseen, or slides beyond their gap.

    Joints that appear in mimic rows only are left alone: those rows are linear.
    """
    in_loops = jacobian[: len(error) - len(robot.mimics)].any(axis=0)
    turn = float(np.linalg.norm(step[in_loops & robot.turning_dofs]))
    slide = float(np.linalg.norm(step[in_loops & ~robot.turning_dofs]))
    reach = max(0.5, 2.0 * float(np.linalg.norm(error)))  # half a metre, or twice the gap
    return 1.0 / max(1.0, turn / LARGEST_TURN, slide / reach)


def _nearest(robot: Robot, target: Array, start: Array, held: Collection[int]) -> Array | None:
    """Closed configuration nearest to target: Newton to the closure, then slides along it."""
    q = _newton(robot, start, held)
    if np.abs(closure_rows(robot, q)[0]).max(initial=0.0) > CLOSURE_TOLERANCE:
        return None
    free = np.array([i not in held for i in range(robot.nv)])
    distance = _distance(robot, target, q)
    for _ in range(STEPS):
        jacobian = closure_rows(robot, q)[1][:, free]
        tolerance = _relative_rank_tolerance(jacobian)
        towards = -pin.difference(robot.model, target, q)[free]
        along = towards - np.linalg.pinv(jacobian, rcond=tolerance) @ (jacobian @ towards)
        if np.linalg.norm(along) < 1e-9 * (1.0 + distance):
            break
        for halving in range(10):
            step = np.zeros(robot.nv)
            step[free] = along * 0.5**halving
            trial = _newton(robot, pin.integrate(robot.model, q, step), held)
            closed = np.abs(closure_rows(robot, trial)[0]).max(initial=0.0) <= CLOSURE_TOLERANCE
            trial_distance = _distance(robot, target, trial)
            if closed and trial_distance < distance:
                break
        else:
            break
        q, distance = trial, trial_distance
    return q


def _nearest_within_limits(
    robot: Robot, target: Array, closed: Array, held: Collection[int]
) -> Array | None:
    """Holds joints at the limits they violate until none is violated; None if that cannot close."""
    held = set(held)
    for _ in range(len(robot.joints)):
        clipped = _clip(robot, closed, held)
        beyond = np.abs(pin.difference(robot.model, closed, clipped)) > CLOSURE_TOLERANCE
        if not beyond.any():
            return closed
        held |= set(np.flatnonzero(beyond))
        result = _nearest(robot, target, clipped, held)
        if result is None:
            return None
        closed = result
    return None


def mobility(robot: Robot, q: Array) -> Mobility:
    """Rank of all constraints at the closed configuration q and near it: q may be singular."""
    tree_rows = sum(joint.kind.rows for joint in robot.joints)
    loop_rows = sum(loop.kind.rows for loop in robot.loops) + len(robot.mimics)
    rank = 0
    rng = np.random.default_rng(1)
    for attempt in range(4 if loop_rows else 0):
        if attempt:
            nudge = 0.05 * rng.normal(size=robot.nv)
            near = _newton(robot, pin.integrate(robot.model, q, nudge), ())
        else:
            near = q
        error, jacobian = closure_rows(robot, near)
        if np.abs(error).max() > CLOSURE_TOLERANCE:
            continue
        singular = np.linalg.svd(jacobian, compute_uv=False)
        rank = max(rank, int(np.sum(singular > RANK_TOLERANCE * max(singular[0], 1.0))))
    return Mobility(tree_rows + loop_rows, tree_rows + rank, robot.nv - rank)
