"""The Fly-Hopper falls on its foot and stands, by IPOPT beside the compiled solver.

    vi-contact demo ipopt_drop [--solver ipopt] [--plot drop.png] [--no-viewer]

On its rail, PD on the hips. Each step of one run is the paper's nonlinear program, solved by IPOPT;
the other run is the compiled Newton method's. The plot shows both, and how far they are apart.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import matplotlib
import numpy as np

import vi_contact as vc

HIPS = [1, 3]  # places in q and v


class Figures(NamedTuple):
    apart: np.ndarray  # largest difference of the configurations at each node [m or rad]
    impact: float  # time of the first [s]
    speed: float  # largest at the end [m/s or rad/s]


def drop(solver: str) -> vc.Trajectory:
    robot = vc.load_robot("fly_hopper_rail")
    q = robot.neutral()
    q[1] = 0.2
    q = robot.on_ground(robot.close_loops(q, fixed=("joint_0",)))
    q[0] += 0.1
    sim = vc.Simulator(robot, time_step=0.01, solver=solver)
    sim.reset(q)
    return sim.run(1.0, vc.JointCommand(q=q[HIPS], kp=200.0, kd=20.0))


def plot(runs: dict[str, vc.Trajectory], apart: np.ndarray, path: str | None) -> None:
    if path:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(3, 1, sharex=True, figsize=(7, 7))
    for (name, run), style in zip(runs.items(), ("-", "--"), strict=False):
        panels[0].plot(run.time, run.q[:, 0], style, label=name)
        panels[1].step(run.time[:-1], run.contacts["foot"].force[:, 2], style, where="post")
    panels[2].semilogy(run.time, apart + 1e-17)
    panels[0].legend()
    for panel, label in zip(panels, ("base [m]", "foot force [N]", "apart [m, rad]"), strict=True):
        panel.set_ylabel(label)
    panels[2].set_xlabel("time [s]")
    figure.tight_layout()
    figure.savefig(path, dpi=150) if path else plt.show()
    plt.close(figure)


def main(arguments: list[str] | None = None) -> Figures:
    """Drops the hopper with the default solver and another; returns the figures of both."""
    parser = argparse.ArgumentParser(prog="vi-contact demo ipopt_drop", description=__doc__)
    parser.add_argument("--solver", choices=["ipopt", "newton"], default="ipopt")
    parser.add_argument("--plot", metavar="FILE", help="write the plot to a file")
    parser.add_argument("--no-viewer", action="store_true", help="do not open a window")
    options = parser.parse_args(arguments)
    runs = {name: drop(name) for name in dict.fromkeys(["newton", options.solver])}
    run = runs[options.solver]
    apart = np.abs(run.q - runs["newton"].q).max(axis=1)
    for name, each in runs.items():
        milliseconds = 1e3 * each.wall_time / len(each)
        print(f"{name}: {milliseconds:.3g} ms and {each.iterations.mean():.1f} iterations per step")
    print(f"impact at {run.impacts[0][0]:.2f} s; apart by at most {apart.max():.1e} m or rad")
    if options.plot or not options.no_viewer:
        plot(runs, apart, options.plot)
    return Figures(apart, run.impacts[0][0], float(np.abs(run.v[-1]).max()))


if __name__ == "__main__":
    main()
