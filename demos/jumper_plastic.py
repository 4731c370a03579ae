"""The published lift-off: when the jumper's foot leaves the ground, with both refinements.

    python demos/jumper_plastic.py [--no-viewer] [--plot release.png] [--html run.html]

The jumper stands upright, its foot held by a plastic contact, and a force that rises as a step
function, 3/2 G (t + h) at the end of each interval, pulls its torso up. The foot comes off where
the multiplier of its contact vanishes; where no step length makes it vanish, the step is refined.
In the animation the force ends at 1.1 s, and the jumper lands.
"""

from __future__ import annotations

import argparse

import matplotlib

import vi_contact as vc

CASES = ((0.015, "bisection"), (0.0075, "bisection"), (0.0075, "subdivision"))
ROBOT = vc.load_robot("jumper")
WEIGHT = ROBOT.mass * 9.81


def lift_off(time_step: float, refinement: str, duration: float) -> vc.Trajectory:
    def force(t: float) -> list[float]:
        return [1.5 * WEIGHT * (t + time_step) if t < 1.1 else 0.0, 0.0, 0.0, 0.0, 0.0]

    sim = vc.Simulator(ROBOT, time_step, contact=vc.PlasticContact(refinement))
    sim.reset(ROBOT.on_ground(ROBOT.neutral()))
    return sim.run(duration, vc.StepFunction(force))


def plot(runs: list[vc.Trajectory], path: str | None) -> None:
    if path:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(runs), sharey=True, figsize=(10, 3.5))
    for axis, run, (time_step, refinement) in zip(axes, runs, CASES, strict=True):
        release = run.occurrences[0]
        axis.plot(run.time, 1.5 * (run.time + time_step), color="silver", label="3/2 (t + h)")
        axis.step(run.time[:-1], run.tau[:, 0] / WEIGHT, "o-", where="post", label="force")
        axis.axvline(release.time, color="red", label=f"release {release.time:.10g} s")
        axis.axhline(1.0, color="grey", linestyle=":")
        axis.set(xlim=(0.64, 0.67), ylim=(0.965, 1.025), xlabel="time [s]")
        axis.set_title(f"h = {time_step:g} s, {refinement} {release.refinements or 'not needed'}")
        axis.legend(loc="lower right")
    axes[0].set_ylabel("force / weight")
    figure.tight_layout()
    if path:
        figure.savefig(path, dpi=150)
    else:
        plt.show()
    plt.close(figure)


def main(arguments: list[str] | None = None) -> list[float]:
    """Runs the three cases; returns their release times [s]."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-viewer", action="store_true", help="do not open a window")
    parser.add_argument("--plot", metavar="FILE", help="write the plot to a file")
    parser.add_argument("--html", metavar="FILE", help="write an animation with the landing")
    options = parser.parse_args(arguments)
    runs = [lift_off(time_step, refinement, 0.72) for time_step, refinement in CASES]
    if options.plot or not options.no_viewer:
        plot(runs, options.plot)
    if options.html:
        lift_off(0.0075, "bisection", 1.8).to_html(options.html)
    for run, (time_step, refinement) in zip(runs, CASES, strict=True):
        [release] = run.occurrences
        print(f"h = {time_step} s, {refinement} {release.refinements}: {release.time:.10f} s")
    return [run.occurrences[0].time for run in runs]


if __name__ == "__main__":
    main()
