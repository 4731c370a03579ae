"""Hopping in place on one closed leg."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

import vi_contact as vc
from vi_contact.robot.closure import closure_rows
from vi_contact.robot.parts import Array, JointKind

GRAVITY = 9.81


class VerticalHopper:
    r"""Hops on a vertical slide: a virtual leg spring in stance, the leg placed in flight.

    Stance: the motors push the foot down, and not sideways, by

    .. math:: f = k (l_0 - l) + k_E (E^* - E)

    the second part only while the leg extends: it fills up the energy E of robot and virtual spring
    to that of the apex asked for. Flight: the hips are held, implicitly in the step, where the leg
    has its length :math:`l_0` with the foot below the hip. What impacts take is learnt: every hop
    raises :math:`E^*` by a part of the height that was missed.

    For robots whose base is on a vertical slide, with two actuated hips and one contact.
    """

    def __init__(
        self,
        robot: vc.Robot,
        hop_height: float = 0.25,
        leg_length: float = 0.45,
        stiffness: float = 1500.0,
        energy_gain: float = 40.0,
        learning: float = 0.6,
        hip_stiffness: float = 300.0,
        hip_damping: float = 2.0,
    ) -> None:
        """hop_height: of the foot at the apex [m]; energy_gain: [N/J]; learning: from 0 to 1."""
        slides = robot.joints and robot.joints[0].kind is JointKind.PRISMATIC
        if not slides or robot.nu != 2 or len(robot.contacts) != 1:
            raise vc.ViContactError(
                f"robot '{robot.name}' is not a hopper on a slide with two hips and one contact; "
                "fly_hopper_rail is"
            )
        self.robot = robot
        self.leg_length = leg_length
        self.stiffness = stiffness
        self.energy_gain = energy_gain
        self.learning = learning
        self.hip_stiffness = hip_stiffness
        self.hip_damping = hip_damping
        [self.contact] = robot.contacts
        self.hips = robot.actuated_dofs
        self.passive = np.setdiff1d(np.arange(1, robot.nv), self.hips)
        self.start = self._place_foot()
        """(nq,) leg placed, foot on the ground."""
        self.apex = float(self.start[0]) + hop_height
        """Of the base [m]."""
        self.reset()

    def reset(self) -> None:
        """Before the first hop."""
        self.in_stance = False
        self.highest = -np.inf
        self.energy = self.goal = 0.0
        self.bonus = 0.0
        self.hops: list[float] = []
        """Heights of the foot at every apex so far [m]."""

    def __call__(self, state: vc.State) -> vc.JointCommand:
        height, speed = float(state.q[0]), float(state.v[0])
        p_HF, jacobian = self.foot(state.q)
        length = -float(p_HF[1])
        clearance = height - length - self.contact.radius
        if self.in_stance:
            self.in_stance = clearance < 1e-6 or speed < 0.0  # contacts touch to 1e-9 m
        else:
            if height > self.highest:
                self.highest, self.energy = height, state.energy
            if clearance < 1e-6 and speed < 0.0:
                self._touch_down()
        if not self.in_stance:
            hold = self.start[self.hips]
            return vc.JointCommand(q=hold, kp=self.hip_stiffness, kd=self.hip_damping)
        short = self.leg_length - length
        force = self.stiffness * short
        if speed > 0.0:
            energy = state.energy + 0.5 * self.stiffness * short**2
            force += self.energy_gain * (self.goal - energy)
        return vc.JointCommand(tau=jacobian.T @ np.array([0.0, -force]))

    def _touch_down(self) -> None:
        missed = self.robot.mass * GRAVITY * (self.apex - self.highest)
        if self.hops:  # the first fall was not our hop
            self.bonus += self.learning * missed
        self.goal = self.energy + missed + self.bonus
        self.hops.append(self.highest - float(self.start[0]))
        self.in_stance, self.highest = True, -np.inf

    # ------------------------------------------------------------ kinematics
    def foot(self, q: Array) -> tuple[Array, Array]:
        """(2,) the foot's x and z against the hip [m], and (2, 2) how the hips move it [m/rad].

        The closed loop ties the passive joints to the hips.
        """
        robot, joint = self.robot, self.contact.body + 1
        loops = closure_rows(robot, q)[1]
        follow = -np.linalg.pinv(loops[:, self.passive]) @ loops[:, self.hips]
        placement = robot.data.oMi[joint]
        p_WF = placement.act(robot.bodies[self.contact.body].com + self.contact.p_BC)
        frame = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        twist = pin.getJointJacobian(robot.model, robot.data, joint, frame)
        moves = twist[:3] - pin.skew(p_WF - placement.translation) @ twist[3:]
        by_hips = moves[:, self.hips] + moves[:, self.passive] @ follow
        return np.array([p_WF[0], p_WF[2] - q[0]]), by_hips[[0, 2]]

    def _place_foot(self) -> Array:
        """The configuration with the foot below the hip by the leg's length, on the ground."""
        q = self.robot.neutral()
        for _ in range(30):  # Newton's method; five iterations do
            p_HF, jacobian = self.foot(q)
            error = np.array([0.0, -self.leg_length]) - p_HF
            if np.abs(error).max() < 1e-9:  # [m], as exact as contacts and loops
                return self.robot.on_ground(q)
            q[self.hips] += np.clip(np.linalg.solve(jacobian, error), -0.3, 0.3)
            q = self.robot.close_loops(q, fixed=self.robot.actuated_joints)
        raise vc.ViContactError(
            f"the leg of '{self.robot.name}' cannot be {self.leg_length:g} m long; try 0.45"
        )
