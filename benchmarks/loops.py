"""Long runs of mechanisms with loops: passive and under PD, in flight and on the ground.

Of every run: failures, iterations per step (mean and largest), steps that were split, the largest
loop error, and what a passive robot gained or lost in energy, as a part of its largest kinetic
energy. Robots in flight have no weight: 100 s of falling would be 50 km.

    python benchmarks/loops.py [--time 100] [--step 0.005] [--only delta]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import mechanisms
import numpy as np

import vi_contact as vc
from vi_contact.controllers import JointPD
from vi_contact.controllers.pd import actuated_positions

SPEED = 1.0  # of the start, every coordinate [m/s, rad/s], before the loops take their part


def load(name: str, text: str, folder: Path) -> vc.Robot:
    file = folder / f"{name.replace(' ', '_')}.urdf"
    file.write_text(text)
    return vc.load_robot(file)


def waving(robot: vc.Robot, size: float, **gains: float) -> JointPD:
    """PD about the neutral configuration, every joint at a frequency of its own."""
    middle = actuated_positions(robot, robot.neutral())
    rates = 2.0 * np.pi * (0.3 + 0.1 * np.arange(robot.nu))
    return JointPD(
        robot,
        q=lambda t: middle + size * np.sin(rates * t),
        v=lambda t: size * rates * np.cos(rates * t),
        **gains,
    )


def cases(folder: Path, h: float) -> Iterator[tuple[str, vc.Simulator, object, bool]]:
    """Name, simulator, controller, and whether energy is kept."""
    rng = np.random.default_rng(0)
    for name, make in {**mechanisms.FIXED, **mechanisms.FREE_BASE}.items():
        robot = load(name, make(), folder)
        free = name in mechanisms.FREE_BASE
        gravity = (0.0, 0.0, 0.0) if free else (0.0, 0.0, -9.81)
        size = 0.01 if name == "stewart" else 0.1
        gains = {"kp": 2000.0, "kd": 50.0} if name == "stewart" else {"kp": 20.0, "kd": 0.5}
        if "like" in name:
            gains = {"kp": 300.0, "kd": 5.0}
        flight = vc.Simulator(robot, h, ground=None, joint_limits=False, gravity=gravity)
        flight.reset(v=SPEED * rng.normal(size=robot.nv))
        yield f"{name}, passive", flight, None, True
        flight = vc.Simulator(robot, h, ground=None, joint_limits=False, gravity=gravity)
        yield f"{name}, PD", flight, waving(robot, size, **gains), False
        if not free:
            continue
        ground = vc.Simulator(robot, h, ground=vc.Ground(0.8), joint_limits=False)
        ground.reset(robot.on_ground(robot.neutral()))
        yield f"{name}, ground, PD", ground, waving(robot, 0.05, **gains), False
        ground = vc.Simulator(robot, h, ground=vc.Ground(0.8), joint_limits=False)
        ground.reset(robot.on_ground(robot.neutral(), height=0.1))
        yield f"{name}, ground, passive", ground, None, False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=100.0)
    parser.add_argument("--step", type=float, default=0.005)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    failures = 0
    columns = "failed at [s]", "mean it.", "most", "split", "loop error", "gain", "loss", "wall [s]"
    print(f"{'':30s}" + "".join(f"{c:>14s}" for c in columns))
    with tempfile.TemporaryDirectory() as folder:
        for name, sim, controller, keeps in cases(Path(folder), arguments.step):
            if arguments.only not in name:
                continue
            start = time.perf_counter()
            t = sim.run(arguments.time, controller, throw=False)
            wall = time.perf_counter() - start
            failed = t.status is not vc.Status.CONVERGED
            failures += failed
            row = [f"{t.time[-1]:.3f}" if failed else "-"]
            if len(t.iterations):
                row += [f"{t.iterations.mean():.2f}", str(t.iterations.max())]
                row += [str((t.parts > 1).sum()), f"{t.constraint_error.max():.1e}"]
            if keeps:
                change = (t.energy - t.energy[0]) / t.kinetic.max()
                row += [f"{change.max():.1e}", f"{-change.min():.1e}"]
            else:
                row += ["", ""]
            row.append(f"{wall:.1f}")
            print(f"{name:30s}" + "".join(f"{c:>14s}" for c in row), flush=True)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
