"""What the tests of motion share: robots with every joint type, and an oracle by pinocchio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
from scipy.integrate import solve_ivp
from support import example

import vi_contact as vc
from vi_contact.robot.closure import closure_rows
from vi_contact.robot.parts import WORLD, Array, JointKind

GRAVITY = np.array([0.0, 0.0, -9.81])
JOINT_MODELS = {
    "revolute": lambda axis: pin.JointModelRevoluteUnaligned(axis),
    "continuous": lambda axis: pin.JointModelRUBX(),
    "prismatic": lambda axis: pin.JointModelPrismaticUnaligned(axis),
    "spherical": lambda axis: pin.JointModelSpherical(),
    "planar": lambda axis: pin.JointModelPlanar(),
    "floating": lambda axis: pin.JointModelFreeFlyer(),
}


def random_inertia(rng: np.random.Generator) -> pin.Inertia:
    """A body of about 1 kg and 0.3 m."""
    axes = pin.Quaternion(*_unit(rng, 4)).matrix()
    sizes = rng.uniform(0.1, 0.3, size=3) ** 2
    moments = np.array([sizes[1] + sizes[2], sizes[0] + sizes[2], sizes[0] + sizes[1]])
    mass = rng.uniform(0.5, 1.5)
    return pin.Inertia(mass, 0.2 * rng.normal(size=3), mass * axes @ np.diag(moments) @ axes.T)


def _unit(rng: np.random.Generator, size: int) -> Array:
    vector = rng.normal(size=size)
    return vector / np.linalg.norm(vector)


def robot_of(kinds: tuple[str, ...], free: bool, seed: int = 0, parents=None) -> vc.Robot:
    """A tree with joints of the given kinds in a row, or below the given parents."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    model.name = "_".join(kinds)
    ids = [0]
    if free:
        ids.append(model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base"))
        model.appendBodyToJoint(ids[-1], random_inertia(rng), pin.SE3.Identity())
    for i, kind in enumerate(kinds):
        parent = ids[-1] if parents is None else ids[parents[i]]
        placement = pin.SE3(pin.Quaternion(*_unit(rng, 4)).matrix(), 0.3 * rng.normal(size=3))
        joint = JOINT_MODELS[kind](_unit(rng, 3))
        ids.append(model.addJoint(parent, joint, placement, f"{kind}_{i}"))
        model.appendBodyToJoint(ids[-1], random_inertia(rng), pin.SE3.Identity())
    return vc.from_pinocchio(model)


def random_state(robot: vc.Robot, rng: np.random.Generator, speed: float) -> tuple[Array, Array]:
    """A closed configuration near the neutral one and a velocity that keeps the loops closed."""
    q = pin.integrate(robot.model, robot.neutral(), 0.3 * rng.normal(size=robot.nv))
    v = speed * rng.normal(size=robot.nv)
    if robot.loops or robot.mimics:
        q = robot.close_loops(q)
        jacobian = closure_rows(robot, q)[1]
        v -= np.linalg.pinv(jacobian, rcond=1e-8) @ (jacobian @ v)
    return q, v


def body_jacobian(robot: vc.Robot, q: Array) -> Array:
    """(6 n, nv) P(q): joint velocities to (CoM velocity in world, rotation in body axes)."""
    pin.computeJointJacobians(robot.model, robot.data, q)
    blocks = []
    for i, body in enumerate(robot.bodies):
        local = pin.getJointJacobian(robot.model, robot.data, i + 1, pin.ReferenceFrame.LOCAL)
        R_WB = robot.data.oMi[i + 1].rotation
        blocks += [R_WB @ (local[:3] - pin.skew(body.com) @ local[3:]), local[3:]]
    return np.vstack(blocks) if blocks else np.zeros((0, robot.nv))


def bare(robot: vc.Robot, **parts) -> vc.Robot:
    """The robot with loops and mimic joints, but without springs and motors unless given."""
    return vc.Robot(
        robot.name,
        robot.model,
        parts.get("bodies", robot.bodies),
        parts.get("joints", robot.joints),
        parts.get("loops", robot.loops),
        parts.get("mimics", robot.mimics),
        parts.get("motors", ()),
        parts.get("springs", ()),
    )


def unlimited(robot: vc.Robot, **parts) -> vc.Robot:
    """The robot with drives that give any torque at any speed; the oracle knows no limits."""
    joints = tuple(
        replace(j, velocity=np.full(j.nv, np.inf), effort=np.full(j.nv, np.inf))
        for j in robot.joints
    )
    return bare(robot, joints=joints, **parts)


class Oracle:
    """Continuous motion: pinocchio's dynamics with loops, springs and damping, to about 1e-12."""

    def __init__(self, robot: vc.Robot, gravity: Array = GRAVITY) -> None:
        self.robot = robot
        self.model = robot.model.copy()
        self.model.gravity.linear = np.asarray(gravity, dtype=float)
        self.data = self.model.createData()

    def acceleration(self, q: Array, v: Array, torque: Array) -> Array:
        model, data, robot = self.model, self.data, self.robot
        damping = np.concatenate([joint.damping for joint in robot.joints])
        armature = np.concatenate([joint.armature for joint in robot.joints])
        force = torque - damping * v + self._springs(q, v)
        if not robot.loops and not robot.mimics:
            model.armature = armature
            return pin.aba(model, data, q, v, force)
        model.armature = np.zeros(robot.nv)
        upper = np.triu(pin.crba(model, data, q))
        mass = upper + np.triu(upper, 1).T + np.diag(armature)
        rest = force - pin.nonLinearEffects(model, data, q, v)
        jacobian = closure_rows(robot, q)[1]
        rows = len(jacobian)
        matrix = np.block([[mass, -jacobian.T], [jacobian, np.zeros((rows, rows))]])
        right = np.concatenate([rest, -self._drift(q, v)])
        return np.linalg.lstsq(matrix, right, rcond=1e-12)[0][: robot.nv]

    def _drift(self, q: Array, v: Array) -> Array:
        """Acceleration of the loop points (spherical loops only) and mimic rows at zero dv/dt."""
        pin.forwardKinematics(self.model, self.data, q, v, np.zeros(self.robot.nv))
        parts = []
        for loop in self.robot.loops:
            assert loop.kind is JointKind.SPHERICAL
            ends = []
            for body, frame in ((loop.parent, loop.frame_parent), (loop.child, loop.frame_child)):
                p = frame.p + self.robot.bodies[body].com
                a, w = self.data.a[body + 1], self.data.v[body + 1]
                point = w.linear + np.cross(w.angular, p)
                local = a.linear + np.cross(a.angular, p) + np.cross(w.angular, point)
                ends.append(self.data.oMi[body + 1].rotation @ local)
            parts.append(ends[1] - ends[0])
        return np.concatenate([*parts, np.zeros(len(self.robot.mimics))])

    def _springs(self, q: Array, v: Array) -> Array:
        force = np.zeros(self.robot.nv)
        if not self.robot.springs:
            return force
        jacobian = body_jacobian(self.robot, q)
        state = self.robot.to_maximal(q)
        for spring in self.robot.springs:
            ends = []
            for body, p in ((spring.body_1, spring.p_1), (spring.body_2, spring.p_2)):
                if body == WORLD:
                    ends.append((p, np.zeros((3, self.robot.nv))))
                    continue
                R = pin.Quaternion(state.quat_WB_xyzw[body]).matrix()
                rows = jacobian[6 * body : 6 * body + 6]
                ends.append((state.p_WB[body] + R @ p, rows[:3] - R @ pin.skew(p) @ rows[3:]))
            d = ends[1][0] - ends[0][0]
            length = np.linalg.norm(d)
            along = (d / length) @ (ends[1][1] - ends[0][1])
            pull = spring.stiffness * (length - spring.rest_length) + spring.damping * along @ v
            force -= pull * along
        return force

    def _rate(self, q: Array, v: Array) -> Array:
        """dq/dt in pinocchio's coordinates."""
        rate = np.zeros(self.robot.nq)
        for joint in self.robot.joints:
            x = q[joint.idx_q : joint.idx_q + joint.nq]
            s = v[joint.idx_v : joint.idx_v + joint.nv]
            out = rate[joint.idx_q : joint.idx_q + joint.nq]
            if joint.continuous:
                out[:] = [-x[1] * s[0], x[0] * s[0]]
            elif joint.kind is JointKind.PLANAR:
                out[:2] = [x[2] * s[0] - x[3] * s[1], x[3] * s[0] + x[2] * s[1]]
                out[2:] = [-x[3] * s[2], x[2] * s[2]]
            elif joint.nq == 1:
                out[:] = s
            else:
                quat = pin.Quaternion(x[-4:])
                out[-4:] = (quat * pin.Quaternion(0.0, *(0.5 * s[-3:]))).coeffs()
                if joint.nq == 7:
                    out[:3] = quat.matrix() @ s[:3]
        return rate

    def motion(self, q: Array, v: Array, torque: Array, time: float) -> tuple[Array, Array]:
        """State after a time under constant joint torques (nv,)."""

        def rate(_: float, y: Array) -> Array:
            at, speed = pin.normalize(self.model, y[: self.robot.nq]), y[self.robot.nq :]
            return np.concatenate([self._rate(at, speed), self.acceleration(at, speed, torque)])

        # tolerances two orders below what the tests look at
        start = np.concatenate([q, v])
        done = solve_ivp(rate, (0.0, time), start, method="DOP853", rtol=1e-13, atol=1e-13)
        assert done.success
        end = done.y[:, -1]
        return pin.normalize(self.model, end[: self.robot.nq]), end[self.robot.nq :]


def observed_orders(
    robot: vc.Robot, q: Array, v: Array, tau: Array, time: float, steps: tuple[int, ...]
) -> tuple[Array, Array]:
    """Slopes of the error at a fixed time in q and in v between successive numbers of steps."""
    torque = np.zeros(robot.nv)
    torque[robot.actuated_dofs] = tau
    q_end, v_end = Oracle(robot).motion(q, v, torque, time)
    errors = []
    for count in steps:
        sim = vc.Simulator(robot, time / count, ground=None, joint_limits=False)
        sim.reset(q, v)
        trajectory = sim.run(time, lambda _: tau)
        errors.append(
            (
                np.linalg.norm(pin.difference(robot.model, q_end, trajectory.q[-1])),
                np.linalg.norm(trajectory.v[-1] - v_end),
            )
        )
    ratios = np.diff(np.log(np.array(errors)), axis=0).T
    return tuple(-ratios / np.diff(np.log(steps)))


def example_robot(name: str, base: str | None = None) -> vc.Robot:
    return vc.load_robot(example(name), contacts="none", base=base)


def chain_urdf(folder: Path, links: int, planar: bool = True) -> Path:
    """Links of 0.2 m in a row, hanging from the world."""
    inertial = (
        '<inertial><origin xyz="0 0 -0.1"/><mass value="1"/><inertia ixx="0.0034" ixy="0" ixz="0" '
        'iyy="0.0034" iyz="0" izz="0.0002"/></inertial>'
    )
    parts = ['<link name="world"/>']
    for i in range(links):
        axis = "0 1 0" if planar or i % 2 == 0 else "1 0 0"
        parent, height = ("world", 0.0) if i == 0 else (f"link_{i - 1}", -0.2)
        parts.append(
            f'<link name="link_{i}">{inertial}</link><joint name="joint_{i}" type="continuous">'
            f'<parent link="{parent}"/><child link="link_{i}"/><origin xyz="0 0 {height}"/>'
            f'<axis xyz="{axis}"/></joint>'
        )
    file = folder / f"chain_{links}.urdf"
    file.write_text(f'<robot name="chain_{links}">{"".join(parts)}</robot>')
    return file
