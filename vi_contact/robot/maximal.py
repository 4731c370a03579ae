"""Minimal coordinates (pinocchio's q, v) to maximal ones (every body's motion) and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from vi_contact.errors import ArgumentError, ArrayError
from vi_contact.robot.parts import WORLD, Array, Body, Joint, JointKind


@dataclass(frozen=True)
class MaximalState:
    """Poses and velocities of all bodies, one row each, at their centres of mass."""

    p_WB: Array
    """(n, 3) positions in the world [m]."""
    quat_WB_xyzw: Array
    """(n, 4) orientations, body to world."""
    v_WB: Array
    """(n, 3) velocities of the centres of mass, world axes [m/s]."""
    w_WB_B: Array
    """(n, 3) angular velocities, body axes [rad/s]."""


def rotation_matrices(quat_xyzw: Array) -> Array:
    """(..., 4) unit quaternions to (..., 3, 3) rotation matrices."""
    x, y, z, w = np.moveaxis(quat_xyzw, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def quaternion_product(a_xyzw: Array, b_xyzw: Array) -> Array:
    """(4,) Hamilton product a b."""
    av, aw, bv, bw = a_xyzw[:3], a_xyzw[3], b_xyzw[:3], b_xyzw[3]
    return np.append(aw * bv + bw * av + np.cross(av, bv), aw * bw - av @ bv)


def to_maximal(
    model: pin.Model, data: pin.Data, bodies: Sequence[Body], q: Array, v: Array
) -> MaximalState:
    """Forward kinematics: p_WB = oMi com, R_WB = R of oMi, velocities at the centre of mass."""
    pin.forwardKinematics(model, data, q, v)
    count = len(bodies)
    p_WB, v_WB, w_WB_B = (np.empty((count, 3)) for _ in range(3))
    quat_WB = np.empty((count, 4))
    for i, body in enumerate(bodies):
        placement, velocity = data.oMi[i + 1], data.v[i + 1]
        p_WB[i] = placement.act(body.com)
        quat_WB[i] = pin.Quaternion(placement.rotation).coeffs()
        w_WB_B[i] = velocity.angular
        v_WB[i] = placement.rotation @ (velocity.linear + np.cross(velocity.angular, body.com))
    return MaximalState(p_WB, quat_WB, v_WB, w_WB_B)


def check_state(state: MaximalState, count: int) -> None:
    """Poses and velocities of `count` bodies, finite and with unit quaternions, or an error."""
    for name, width in (("p_WB", 3), ("quat_WB_xyzw", 4), ("v_WB", 3), ("w_WB_B", 3)):
        if not hasattr(state, name):
            raise ArgumentError("state", state, "a MaximalState, as to_maximal gives it")
        array = check_array(f"state.{name}", getattr(state, name), (count, width))
        if name == "quat_WB_xyzw":
            norms = np.linalg.norm(array, axis=1)
            if np.abs(norms - 1.0).max(initial=0.0) > 1e-6:
                worst = int(np.abs(norms - 1.0).argmax())
                raise ArrayError(
                    f"state.{name}", f"row {worst} has length {norms[worst]:.6g}, not 1"
                )


def is_number(value: object) -> bool:
    """Whether it is one finite number."""
    scalar = isinstance(value, Real) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return scalar and bool(np.isfinite(value))  # type: ignore[call-overload]


def check_array(name: str, value: ArrayLike, size: int | tuple[int, ...]) -> Array:
    """A fresh array of that shape, of finite doubles, or ArrayError."""
    shape = (size,) if isinstance(size, int) else size
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArrayError(name, f"cannot be read as {math.prod(shape)} numbers") from None
    if array.shape != shape:
        raise ArrayError(name, f"has shape {array.shape}, needed is {shape}")
    if not np.isfinite(array).all():
        raise ArrayError(name, f"entry {int(np.flatnonzero(~np.isfinite(array))[0])} is not finite")
    return array


def to_minimal(
    bodies: Sequence[Body], joints: Sequence[Joint], state: MaximalState, near: Array
) -> tuple[Array, Array]:
    """Joint coordinates and velocities of given body poses.

    What poses cannot tell (full turns of a revolute joint, the sign of a quaternion) is taken as
    close as possible to the configuration `near`.
    """
    q = near.copy()
    v = np.zeros(joints[-1].idx_v + joints[-1].nv if joints else 0)
    R_WB = rotation_matrices(state.quat_WB_xyzw)
    for i, joint in enumerate(joints):
        R_WG, quat_WG = R_WB[i], state.quat_WB_xyzw[i]
        p_WG = state.p_WB[i] - R_WG @ bodies[i].com
        v_WG = state.v_WB[i] - R_WG @ np.cross(state.w_WB_B[i], bodies[i].com)
        if joint.parent == WORLD:
            R_WP, quat_WP, p_WP = np.eye(3), np.array([0.0, 0, 0, 1]), np.zeros(3)
            v_WP, w_WP = np.zeros(3), np.zeros(3)
        else:
            p = joint.parent
            R_WP, quat_WP, p_WP = R_WB[p], state.quat_WB_xyzw[p], state.p_WB[p]
            v_WP, w_WP = state.v_WB[p], R_WP @ state.w_WB_B[p]
        quat_WF = quaternion_product(quat_WP, joint.frame_parent.quat_xyzw)
        p_WF = p_WP + R_WP @ joint.frame_parent.p
        d_F = rotation_matrices(quat_WF).T @ (p_WG - p_WF)
        quat_FG = quaternion_product(quat_WF * [-1, -1, -1, 1], quat_WG)
        # velocity of the child relative to the parent's material at the joint, in child axes
        linear = R_WG.T @ (v_WG - v_WP - np.cross(w_WP, p_WG - p_WP))
        angular = state.w_WB_B[i] - R_WG.T @ w_WP
        span_q = slice(joint.idx_q, joint.idx_q + joint.nq)
        span_v = slice(joint.idx_v, joint.idx_v + joint.nv)
        q[span_q], v[span_v] = _coordinates(joint, d_F, quat_FG, linear, angular, near[span_q])
    return q, v


def _coordinates(
    joint: Joint, d_F: Array, quat_FG: Array, linear: Array, angular: Array, near: Array
) -> tuple[Array, Array]:
    """pinocchio's coordinates of one joint from the relative pose and velocity."""
    if joint.kind is JointKind.REVOLUTE:
        angle = 2.0 * np.arctan2(joint.axis @ quat_FG[:3], quat_FG[3])
        rate = np.array([joint.axis @ angular])
        if joint.continuous:
            return np.array([np.cos(angle), np.sin(angle)]), rate
        turns = np.round((near[0] - angle) / (2.0 * np.pi))
        return np.array([angle + 2.0 * np.pi * turns]), rate
    if joint.kind is JointKind.PRISMATIC:
        return np.array([joint.axis @ d_F]), np.array([joint.axis @ linear])
    if joint.kind is JointKind.PLANAR:
        angle = 2.0 * np.arctan2(quat_FG[2], quat_FG[3])
        return (
            np.array([d_F[0], d_F[1], np.cos(angle), np.sin(angle)]),
            np.array([linear[0], linear[1], angular[2]]),
        )
    quat = quat_FG if near[-4:] @ quat_FG >= 0.0 else -quat_FG
    if joint.kind is JointKind.SPHERICAL:
        return quat, angular
    return np.concatenate([d_F, quat]), np.concatenate([linear, angular])
