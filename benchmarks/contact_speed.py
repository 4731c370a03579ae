"""Time per step in contact at h = 0.01 s beside MuJoCo with its elliptic cone, in the same run.

Robots stand on their feet, held by torques that a weak controller found; both engines take the
same torques from the same state. Penetration, and creep as the speed of the touching points along
the ground, are those of the same steps.
"""

from __future__ import annotations

import time

import mujoco
import mujoco_models
import numpy as np
from random_drops import load
from scipy.spatial.transform import Rotation

import vi_contact as vc

STEP = 0.01
STEPS, REPEATS = 20, 300
GAINS = {"fly_hopper": (4.0, 0.1), "quadruped": (40.0, 1.0)}


def standing(robot: vc.Robot) -> np.ndarray:
    q = robot.neutral()
    for joint in robot.joints:
        side = 1.0 if joint.name[:2] in ("LF", "RF") else -1.0
        if "HFE" in joint.name:
            q[joint.idx_q] = 0.4 * side
        if "KFE" in joint.name:
            q[joint.idx_q] = -0.8 * side
    return robot.on_ground(q)


class Hold:
    """A weak PD controller about a configuration."""

    def __init__(self, robot: vc.Robot, q: np.ndarray, stiffness: float, damping: float) -> None:
        self.dofs = robot.actuated_dofs
        self.places = [next(j.idx_q for j in robot.joints if j.idx_v == d) for d in self.dofs]
        self.q, self.stiffness, self.damping = q, stiffness, damping

    def __call__(self, state: vc.State) -> np.ndarray:
        error = self.q[self.places] - state.q[self.places]
        return self.stiffness * error - self.damping * state.v[self.dofs]


def slip(robot: vc.Robot, trajectory: vc.Trajectory, name: str) -> float:
    """Mean speed along the ground of the surface of a contact [m/s]."""
    contact = next(contact for contact in robot.contacts if contact.name == name)
    turn = Rotation.from_quat(trajectory.quat_WB_xyzw[:, contact.body].copy())
    lever = turn.apply(contact.p_BC.copy()) - [0.0, 0.0, contact.radius]
    spin = turn.apply(trajectory.w_WB_B[:, contact.body].copy())
    v = trajectory.v_WB[:, contact.body] + np.cross(spin, lever)
    touches = trajectory.contacts[name].gap < 1e-9
    return float(np.linalg.norm(v[touches, :2], axis=1).mean())


def mujoco_slip(model: mujoco.MjModel, data: mujoco.MjData, steps: int) -> float:
    """The same of MuJoCo's contacts over the next steps, that of the fastest."""
    speeds: dict[int, list[float]] = {}
    rows = np.zeros((3, model.nv))
    for _ in range(steps):
        mujoco.mj_step(model, data)
        for contact in data.contact:
            geom = int(max(contact.geom))
            mujoco.mj_jac(model, data, rows, None, contact.pos, model.geom_bodyid[geom])
            speeds.setdefault(geom, []).append(float(np.linalg.norm((rows @ data.qvel)[:2])))
    return max(float(np.mean(values)) for values in speeds.values())


def main() -> None:
    for name, (stiffness, damping) in GAINS.items():
        robot = load(name)
        q = standing(robot)
        sim = vc.Simulator(robot, STEP)

        sim.reset(q)
        tau = sim.run(0.1, Hold(robot, q, stiffness, damping)).tau[-1].copy()
        start, snapshot = sim.state, sim.snapshot()
        ours = np.inf
        for _ in range(REPEATS):
            sim.restore(snapshot)
            begin = time.perf_counter()
            sim._stepper.run(STEPS, tau, False, None, None, None, None, None, None)
            ours = min(ours, (time.perf_counter() - begin) / STEPS)
        sim.restore(snapshot)
        trajectory = sim.run(0.0)
        touching = sorted({k for k in trajectory.contacts if trajectory.contacts[k].gap[0] < 1e-9})
        model = mujoco_models.load(robot, STEP, contacts=True)
        model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        data = mujoco.MjData(model)
        theirs, depth = np.inf, 0.0

        def restart(
            model: mujoco.MjModel = model, data: mujoco.MjData = data, tau: np.ndarray = tau,
            robot: vc.Robot = robot, start: vc.State = start,
        ) -> None:  # fmt: skip
            mujoco.mj_resetData(model, data)
            data.qpos[:] = mujoco_models.to_qpos(robot, start.q)
            data.qvel[:] = mujoco_models.to_qvel(robot, start.q, start.v)
            data.ctrl[:] = tau

        for _ in range(REPEATS):
            restart()
            begin = time.perf_counter()
            mujoco.mj_step(model, data, STEPS)
            theirs = min(theirs, (time.perf_counter() - begin) / STEPS)
            depth = max([depth, *(-contact.dist for contact in data.contact)])
        restart()
        creep = mujoco_slip(model, data, STEPS)
        sim.restore(snapshot)
        held = sim.run(STEPS * STEP, lambda _, tau=tau: tau)
        ours_creep = max(slip(robot, held, name) for name in touching)
        ours_depth = max(-float(held.contacts[name].gap.min()) for name in touching)
        print(
            f"{name}: {len(touching)} contacts closed of {len(robot.contacts)}, "
            f"{1e6 * ours:.1f} us (penetration {ours_depth:.1g} m, creep {ours_creep:.1g} m/s), "
            f"MuJoCo {1e6 * theirs:.1f} us (penetration {depth:.2g} m, creep {creep:.2g} m/s)"
        )


if __name__ == "__main__":
    main()
