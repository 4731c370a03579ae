"""Joint-space PD control, solved with the step."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

import vi_contact as vc
from vi_contact.robot.closure import closure_rows
from vi_contact.robot.maximal import check_array
from vi_contact.robot.parts import Array
from vi_contact.simulation.command import Reference


class JointPD:
    r"""Holds joints, or moves them along a reference.

    .. math:: \tau = \tau_{ff} + g(q) + k_p (q_{ref} - q) + k_d (v_{ref} - v)

    The gains act implicitly (see `vc.JointCommand`), so stiff ones are stable at any time step, and
    settle within a few.
    q: (nu,) in the order of `robot.actuated_joints`, the neutral configuration if not given. Where
    a single number is given for kp, joints with several coordinates are only damped.

    Functions of time are read where they act in the step, about its middle: a moving reference is
    followed to second order. Give its speed v with it, or the damping holds back.

    gravity_compensation: adds the torques that carry the links against gravity, as if a free base
    were held; what closed loops pass on to the actuated joints is included.
    """

    def __init__(
        self,
        robot: vc.Robot,
        q: Reference | None = None,
        v: Reference = 0.0,
        kp: ArrayLike = 100.0,
        kd: ArrayLike = 10.0,
        tau: Reference = 0.0,
        gravity_compensation: bool = False,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
    ) -> None:
        self.robot = robot
        single = np.concatenate(
            [np.full(joint.nv, joint.nv == 1) for joint in robot.joints if joint.actuated]
            or [np.zeros(0, dtype=bool)]
        )
        self.q = actuated_positions(robot, robot.neutral()) if q is None else q
        self.v, self.tau = v, tau
        self.kp = single * float(np.asarray(kp)) if np.ndim(kp) == 0 else kp
        self.kd = kd
        self.gravity = check_array("gravity", gravity, 3) if gravity_compensation else None

    def __call__(self, state: vc.State) -> vc.JointCommand:
        return vc.JointCommand(self._feed_forward(state), self.q, self.v, self.kp, self.kd)

    def _feed_forward(self, state: vc.State) -> Reference:
        gravity = self.gravity
        if gravity is None:
            return self.tau

        def torques(time: float) -> Array:
            given = self.tau(time) if callable(self.tau) else self.tau
            q = pin.integrate(self.robot.model, state.q, (time - state.time) * state.v)
            return np.asarray(given) + gravity_torques(self.robot, q, gravity)

        return torques


def actuated_positions(robot: vc.Robot, q: ArrayLike) -> Array:
    """(nu,) positions of the actuated joints [rad or m]; zero where one has several coordinates."""
    configuration = robot.check_q(q)
    positions = [
        [robot.joint_position(configuration, k)] if joint.nv == 1 else [0.0] * joint.nv
        for k, joint in enumerate(robot.joints)
        if joint.actuated
    ]
    return np.array([value for joint in positions for value in joint])


def gravity_torques(robot: vc.Robot, q: Array, gravity: Array) -> Array:
    r"""(nu,) torques that hold the robot's weight, by pinocchio's Jacobian of the centre of mass.

    :math:`S^\top \tau + G^\top \lambda = -m J_{com}^\top g`, the loops G and the actuated joints S
    carrying together; least squares, without the rows of a free base.
    """
    jacobian = pin.jacobianCenterOfMass(robot.model, robot.data, q).reshape(3, robot.nv)
    weight = -robot.data.mass[0] * jacobian.T @ gravity  # of what moves
    loops = closure_rows(robot, q)[1]
    held = np.setdiff1d(np.arange(robot.nv), robot.base_dofs)
    carriers = np.hstack([np.eye(robot.nv)[:, robot.actuated_dofs], loops.T])[held]
    share = np.linalg.lstsq(carriers, weight[held], rcond=None)[0]
    return np.asarray(share[: robot.nu], dtype=np.float64)
