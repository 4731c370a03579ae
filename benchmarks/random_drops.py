"""Random drops: robots thrown on the ground, random friction, spins and time steps.

Counts what every step needed. A step that fails is written to a file that
`vi-contact simulate --replay FILE` repeats. Energy must not grow: that of a step is the kinetic
energy at its mean velocities and the mean potential of its ends, and what it has above the step
before is a gain. Energies at nodes are shown too; at an impact they are below those of the steps
beside it, since the contact that closed takes its part of the velocity.

    python benchmarks/random_drops.py --steps 1000000 [--folder failures]
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from importlib import metadata
from pathlib import Path

import numpy as np

import vi_contact as vc
from vi_contact.simulation.replay import save_failure

ROBOTS = {
    "fly_hopper": "fly_hopper",
    "quadruped": "anymal_b_simple_description/robots/anymal.urdf",
    "humanoid": "talos_data/robots/talos_reduced.urdf",
}
STEPS_PER_DROP = 400


def load(name: str) -> vc.Robot:
    if name == "fly_hopper":
        return vc.load_robot(name)
    root = metadata.distribution("example-robot-data").locate_file(
        "cmeel.prefix/share/example-robot-data/robots"
    )
    return vc.load_robot(Path(str(root)) / ROBOTS[name], base="free")


def start(robot: vc.Robot, rng: np.random.Generator, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Any attitude, the joints anywhere within limits where no loop forbids it, spins."""
    q = robot.neutral()
    if not robot.loops:
        for joint in robot.joints:
            if joint.nq == 1:
                low, high = max(joint.lower[0], -2.0), min(joint.upper[0], 2.0)
                q[joint.idx_q] = rng.uniform(low, high)
    quat = rng.normal(size=4)
    q[3:7] = quat / np.linalg.norm(quat)
    q = robot.on_ground(q)
    q[2] += rng.uniform(0.0, 0.5)
    v = rng.normal(size=robot.nv)
    v[3:6] *= rng.uniform(0.0, min(5.0, 0.1 / h))
    v[6:] = 0.0
    return q, v


def gains(robot: vc.Robot, trajectory: vc.Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """(N - 1,) gain of energy from step to step [J], and as a part of the kinetic energy.

    A step that was split has no mean velocity of its own: what follows it is left out.
    """
    h, x, quat = trajectory.time_step, trajectory.p_WB, trajectory.quat_WB_xyzw
    mass = np.array([body.mass for body in robot.bodies])
    inertia = np.array([body.inertia for body in robot.bodies])
    v = np.diff(x, axis=0) / h
    u = (
        quat[:-1, :, 3:] * quat[1:, :, :3]
        - quat[1:, :, 3:] * quat[:-1, :, :3]
        - np.cross(quat[:-1, :, :3], quat[1:, :, :3])
    )
    kinetic = 0.5 * (mass * (v**2).sum(-1)).sum(-1)
    kinetic += 2.0 / h**2 * np.einsum("kni,nij,knj->k", u, inertia, u)
    potential = 0.5 * (trajectory.potential[1:] + trajectory.potential[:-1])
    gain = np.diff(kinetic + potential)
    gain[trajectory.parts[:-1] > 1] = 0.0
    weight = mass.sum() * (9.81 * h) ** 2  # a body at rest that begins to fall
    return gain, gain / (kinetic[:-1] + weight)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--folder", default="failures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS))
    options = parser.parse_args(arguments)
    logging.getLogger("vi_contact").setLevel(logging.ERROR)  # limbs do turn far in these steps
    failures = 0
    for name in options.robots:
        robot = load(name)
        rng = np.random.default_rng(options.seed)
        count: Counter[str] = Counter()
        deepest, begin = 0.0, time.perf_counter()
        most = {"step": 0.0, "part": 0.0, "node": 0.0}
        while count["steps"] < options.steps // len(options.robots):
            h = float(np.exp(rng.uniform(np.log(0.001), np.log(0.02))))
            ground = vc.Ground(friction=float(rng.uniform(0.0, 2.0)))
            sim = vc.Simulator(robot, h, ground=ground)
            sim.reset(*start(robot, rng, h))
            trajectory = sim.run(STEPS_PER_DROP * h, throw=False)
            count["steps"] += len(trajectory)
            count["in contact"] += len(np.unique(trajectory.contacts.touches[:, 0]))
            count["sweeps"] += int((trajectory.methods == 1).sum())
            count["interior point"] += int((trajectory.methods == 2).sum())
            count["split"] += int((trajectory.parts > 1).sum())
            count["iterations"] += int(trajectory.iterations.sum())
            touched = {int(k) for k in np.unique(trajectory.contacts.touches[:, 1])}
            for k in touched:
                record = trajectory.contacts[trajectory.contacts.names[k]]
                deepest = max(deepest, -float(record.gap.min()))
            if len(trajectory) > 1:
                gain, part = gains(robot, trajectory)
                count["gains over 1 J"] += int((gain > 1.0).sum())
                most["step"] = max(most["step"], float(gain.max()))
                most["part"] = max(most["part"], float(part.max()))
                most["node"] = max(most["node"], float(np.diff(trajectory.energy).max()))
            if trajectory.status is not vc.Status.CONVERGED:
                failures += 1
                count["failed"] += 1
                file = Path(options.folder) / f"{name}_{failures}.npz"
                file.parent.mkdir(parents=True, exist_ok=True)
                save_failure(sim, file)
                print(f"failed: {trajectory.status.name}, written to {file}")
        seconds = time.perf_counter() - begin
        print(f"{name}: {dict(count)}, deepest {deepest:.2g} m, {seconds:.0f} s")
        print(
            f"    largest gain of energy from step to step {most['step']:.2g} J, "
            f"{100.0 * most['part']:.2g} % of the kinetic energy; from node to node "
            f"{most['node']:.2g} J",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
