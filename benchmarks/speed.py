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
) -> tuple[float, Array, float, float]:
    """Microseconds per step, last q, largest loop error, iterations per step."""
    stepper = make_stepper(robot, h, GRAVITY, SolverOptions())
    stepper.reset(q, v)
    q_all = np.empty((steps + 1, robot.nq)) if record else None
    v_all = np.empty((steps + 1, robot.nv)) if record else None
    counts = np.empty((steps, 6))
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


def chain_start(robot: vc.Robot, hanging: bool, speed: float) -> tuple[Array, Array]:
    """A stretched chain.

    Hanging, it is swung stiffly with the tip at this speed [m/s]; in flight every link turns at a
    random rate of this size [rad/s], however long the chain.
    """
    v = np.zeros(robot.nv)
    if hanging:
        v[0] = speed / (0.2 * robot.nv)
    else:
        rates = speed * np.random.default_rng(0).normal(size=robot.nv - 6)
        v[6:] = rates
        v[8:] -= rates[:-2]  # every other joint has the same axis
    return robot.neutral(), v


def energy_gains(robot: vc.Robot, q: Array, v: Array, h: float, steps: int) -> tuple[float, float]:
    """Energy gained after some steps, ours and MuJoCo's [J]."""
    sim = vc.Simulator(robot, h)
    sim.reset(q, v)
    ours = sim.run(steps * h).energy
    model = load(robot, h)
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = to_qpos(robot, q), to_qvel(robot, q, v)
    mujoco.mj_forward(model, data)
    before = data.energy.sum()
    mujoco.mj_step(model, data, nstep=steps)
    mujoco.mj_forward(model, data)
    return ours[-1] - ours[0], data.energy.sum() - before


def chains(h: float, hanging: bool, speed: float, repeat: int) -> None:
    """Cost per link, and by the energy whether the motion can be followed at this step."""
    where = (
        f"hanging, swung stiffly with the tip at {speed} m/s"
        if hanging
        else f"in flight, links turning at {speed} rad/s at random"
    )
    print(f"\nChains {where}, 100 steps at h = {h} s\n")
    print("| chain of | us per step | us per link | iterations | MuJoCo, us per step | "
          "energy gained [J] | by MuJoCo [J] |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for links in (5, 20, 80, 320):
        robot = load_chain(links, hanging)
        q, v = chain_start(robot, hanging, speed)
        model = load(robot, h)
        qpos, qvel = to_qpos(robot, q), to_qvel(robot, q, v)
        ours, theirs, iterations = math.inf, math.inf, 0.0
        for _ in range(repeat):
            took, _, _, iterations = our_time(robot, q, v, h, 100, False)
            ours = min(ours, took)
            theirs = min(theirs, 1e6 / mujoco_steps_per_second(model, qpos, qvel, 100))
        gained, by_mujoco = energy_gains(robot, q, v, h, 100)
        print(
            f"| {links} links | {ours:.2f} | {ours / links:.3f} | {iterations:.2f} | "
            f"{theirs:.2f} | {gained:.1e} | {by_mujoco:.1e} |"
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
        runs = (our_time(robot, q, v, h, steps, False) for _ in range(5))
        took, last, loop, _ = min(runs, key=lambda run: run[0])
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
    chains(TIME_STEP, False, 0.3, repeat)
    chains(TIME_STEP, True, 0.1, repeat)
    chains(0.001, True, 2.0, repeat)
    for name, robot, speed, _ in robots():
        if name.startswith(("five", "quad")):
            work_precision(name, robot, speed, 0.2)


if __name__ == "__main__":
    main()
