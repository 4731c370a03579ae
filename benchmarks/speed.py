"""Microseconds per step against MuJoCo on the same robots, and time to reach the same accuracy.

Both run in compiled loops, in turn, from the same states, without contacts, joint limits or joint
friction. "ours" advances configuration and momentum; "ours, q and v" also solves for the velocity
at every node and records both.

    python benchmarks/speed.py [--repeat 15]
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
from mujoco_models import (
    Array,
    example,
    from_qpos,
    load,
    load_chain,
    mujoco_steps_per_second,
    to_qpos,
    to_qvel,
)

import vi_contact as vc
from vi_contact.robot.closure import closure_rows
from vi_contact.solvers.newton import SolverOptions, make_stepper

GRAVITY = np.array([0.0, 0.0, -9.81])
TIME_STEP = 0.01


def robots() -> Iterator[tuple[str, vc.Robot, float, int]]:
    """Name, robot, size of its random start velocity, steps of an episode."""
    hopper = vc.load_robot("fly_hopper")
    # without spring and motors: MuJoCo has no counterpart of the motor's limits
    yield "five-bar in flight", hopper.with_parts(motors=(), springs=()), 0.3, 2000
    arm = vc.load_robot(example("panda.urdf"), contacts="none", base="fixed")
    yield "7-joint arm (panda)", arm, 0.1, 100
    yield "quadruped (go2)", vc.load_robot(example("go2.urdf"), contacts="none"), 0.3, 200
    humanoid = vc.load_robot(example("talos_reduced.urdf"), contacts="none")
    yield "humanoid (talos)", humanoid, 0.1, 200


def start(robot: vc.Robot, speed: float) -> tuple[Array, Array]:
    """The neutral configuration and a random velocity that keeps loops closed."""
    q = robot.neutral()
    v = speed * np.random.default_rng(0).normal(size=robot.nv)
    if robot.loops or robot.mimics:
        jacobian = closure_rows(robot, q)[1]
        v -= np.linalg.pinv(jacobian, rcond=1e-8) @ (jacobian @ v)
    return q, v


def our_time(
    robot: vc.Robot,
    q: Array,
    v: Array,
    h: float,
    steps: int,
    record: bool,
    gravity: Array = GRAVITY,
) -> tuple[float, Array, float, float]:
    """Microseconds per step, last q, largest loop error, iterations per step."""
    stepper = make_stepper(robot, h, gravity, SolverOptions())
    stepper.reset(q, v)
    q_all = np.empty((steps + 1, robot.nq)) if record else None
    v_all = np.empty((steps + 1, robot.nv)) if record else None
    counts = np.empty((steps, 5))
    begin = time.perf_counter()
    done, report = stepper.run(steps, None, False, None, q_all, v_all, None, None, counts)
    seconds = time.perf_counter() - begin
    assert done == steps, report
    last = np.empty(robot.nq)
    stepper.get_q(last)
    return 1e6 * seconds / steps, last, report[3], float(counts[:, 0].mean())


def compare(name: str, robot: vc.Robot, speed: float, steps: int, h: float, repeat: int) -> None:
    q, v = start(robot, speed)
    model = load(robot, h)
    qpos, qvel = to_qpos(robot, q), to_qvel(robot, q, v)
    theirs, ours, recorded, iterations = [], [], [], 0.0
    for _ in range(repeat):  # in turn, so that both see the same machine; the best counts
        theirs.append(1e6 / mujoco_steps_per_second(model, qpos, qvel, steps))
        ours.append(our_time(robot, q, v, h, steps, False)[0])
        took, _, _, iterations = our_time(robot, q, v, h, steps, True)
        recorded.append(took)
    print(
        f"| {name} | {len(robot.bodies)} | {min(ours):.2f} | {min(recorded):.2f} | "
        f"{min(theirs):.2f} | {min(ours) / min(theirs):.2f} | {iterations:.2f} |"
    )


def chains(h: float, tip_speed: float, gravity: Array, repeat: int) -> None:
    """Cost per link; a chain that cannot be followed at this step is shown as such."""
    where = "hanging" if gravity.any() else "weightless"
    print(f"\nChains, {where}, at h = {h} s, swung stiffly with the tip at {tip_speed} m/s\n")
    print("| chain of | us per step | us per link | iterations | MuJoCo, us per step |")
    print("|---|---|---|---|---|")
    for links in (5, 20, 80, 320):
        robot = load_chain(links)
        q, v = robot.neutral(), np.zeros(robot.nv)
        v[0] = tip_speed / (0.2 * links)
        model = load(robot, h)
        model.opt.gravity[:] = gravity
        qpos, qvel = to_qpos(robot, q), to_qvel(robot, q, v)
        ours, theirs, iterations, steps = math.inf, math.inf, 0.0, 100
        for _ in range(repeat):
            try:
                took, _, _, iterations = our_time(robot, q, v, h, steps, False, gravity)
                ours = min(ours, took)
            except AssertionError:
                ours = math.nan
            try:
                rate = mujoco_steps_per_second(model, qpos, qvel, steps)
                theirs = min(theirs, 1e6 / rate)
            except RuntimeError:
                theirs = math.nan
        mine = f"{ours:.2f} | {ours / links:.3f} | {iterations:.2f}"
        print(
            f"| {links} links | {mine if ours < math.inf else 'the step fails | | '} | "
            f"{f'{theirs:.2f}' if theirs < math.inf else 'it blows up'} |"
        )


def work_precision(name: str, robot: vc.Robot, speed: float, span: float) -> None:
    """Error in q after a time, and how long a second of it takes to compute."""
    q, v = start(robot, speed)
    reference = our_time(robot, q, v, 1e-5, round(span / 1e-5), False)[1]
    print(f"\n{name}: error of q after {span} s\n")
    print("| method | step [s] | error | loop error | ms per simulated second |")
    print("|---|---|---|---|---|")
    for h in (0.01, 0.005, 0.002, 0.001):
        steps = round(span / h)
        took, last, loop, _ = min(our_time(robot, q, v, h, steps, False) for _ in range(5))
        error = np.abs(pin.difference(robot.model, reference, last)).max()
        print(f"| ours | {h} | {error:.1e} | {loop:.0e} | {1e-3 * took / h:.3f} |")
    for integrator in ("Euler", "implicitfast", "RK4"):
        for h in (0.01, 0.002, 0.0005):
            model = load(robot, h, integrator=integrator)
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = to_qpos(robot, q), to_qvel(robot, q, v)
            begin = time.perf_counter()
            mujoco.mj_step(model, data, nstep=round(span / h))
            took = (time.perf_counter() - begin) / span
            mujoco.mj_forward(model, data)
            loop = np.abs(data.efc_pos[: data.ne]).max(initial=0.0)
            last = from_qpos(robot, data.qpos.copy())
            error = np.abs(pin.difference(robot.model, reference, last)).max()
            print(f"| {integrator} | {h} | {error:.1e} | {loop:.0e} | {1e3 * took:.3f} |")


def machine() -> str:
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")),
        platform.processor(),
    )  # fmt: skip
    return f"{cpu}, Python {platform.python_version()}, MuJoCo {mujoco.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    print(f"{machine()}; microseconds per step at h = {TIME_STEP} s, best of {repeat}\n")
    print("| robot | bodies | ours | ours, q and v | MuJoCo | ours / MuJoCo | iterations |")
    print("|---|---|---|---|---|---|---|")
    for name, robot, speed, steps in robots():
        compare(name, robot, speed, steps, TIME_STEP, repeat)
    chains(TIME_STEP, 0.5, np.zeros(3), repeat)
    chains(TIME_STEP, 0.1, GRAVITY, repeat)
    chains(0.001, 2.0, GRAVITY, repeat)
    for name, robot, speed, _ in robots():
        if name.startswith(("five", "quad")):
            work_precision(name, robot, speed, 0.2)


if __name__ == "__main__":
    main()
