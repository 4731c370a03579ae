"""The published long run: the jumper bounces elastically for 400 s, and its energy stays.

    python demos/jumper_elastic.py [--no-viewer] [--time 400] [--plot energy.png] [--html run.html]

Straight leg, at rest, the calf's centre of mass 0.5 m up. Each contact time is solved for; momentum
and discrete energy balance give the impulse, and the motion goes on on the same time grid. Nothing
pushes the leg sideways, not even round-off: it stays straight without locking hip or knee.
"""

from __future__ import annotations

import argparse

import matplotlib
import numpy as np

import vi_contact as vc

TIME_STEPS = (0.01, 0.005)


def bounce(time_step: float, duration: float) -> vc.Trajectory:
    robot = vc.load_robot("jumper")
    q = robot.neutral()
    q[0] = 0.5 + 0.216 + 0.45  # the slide's coordinate is the height of the hip
    sim = vc.Simulator(robot, time_step, contact=vc.ElasticContact("interval"))
    sim.reset(q)
    return sim.run(duration)


def plot(runs: list[vc.Trajectory], path: str | None) -> None:
    if path:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (energy, error) = plt.subplots(2, 1, sharex=True, figsize=(7, 5))
    for run in runs:
        energy.plot(run.time, run.energy, linewidth=0.8, label=f"h = {run.time_step:g} s")
        error.plot(run.time, run.energy / run.energy[0] - 1.0, linewidth=0.8)
    energy.set_ylim(0.0, 1.1 * runs[0].energy[0])
    energy.set_ylabel("total energy [J]")
    energy.legend(loc="lower right")
    error.set_ylabel("relative error")
    error.set_xlabel("time [s]")
    figure.tight_layout()
    if path:
        figure.savefig(path, dpi=150)
    else:
        plt.show()
    plt.close(figure)


def main(arguments: list[str] | None = None) -> dict[float, tuple[int, float]]:
    """Runs it; returns the number of contacts and the worst energy error of each time step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-viewer", action="store_true", help="do not open a window")
    parser.add_argument("--time", type=float, default=400.0, help="duration [s]")
    parser.add_argument("--plot", metavar="FILE", help="write the plot to a file")
    parser.add_argument("--html", metavar="FILE", help="write an animation of the first 5 s")
    options = parser.parse_args(arguments)
    runs = [bounce(time_step, options.time) for time_step in TIME_STEPS]
    if options.plot or not options.no_viewer:
        plot(runs, options.plot)
    if options.html:
        bounce(TIME_STEPS[0], min(options.time, 5.0)).to_html(options.html)
    figures = {}
    for run in runs:
        worst = float(np.abs(run.energy / run.energy[0] - 1.0).max())
        figures[run.time_step] = (len(run.impacts), worst)
        print(
            f"h = {run.time_step:g} s: {len(run.impacts)} contacts in {options.time:g} s,", end=" "
        )
        print(f"energy within {worst:.1e}, leg bent by {np.abs(run.q[:, 5]).max():.0e} rad")
    return figures


if __name__ == "__main__":
    main()
