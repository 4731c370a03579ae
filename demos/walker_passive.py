"""The passive walker: two steps with a slipping foot, then it falls backwards.

    python demos/walker_passive.py [--no-viewer] [--plot walk.png] [--html run.html]

A leg with the masses of foot and hip; the foot slips on the ground against viscous friction. Where
the leg's angle passes -30 degrees the other leg takes over: an event whose reset is the published
impact map. It keeps the foot's place and speed, and takes most of the leg's rate.
"""

from __future__ import annotations

import argparse

import matplotlib
import numpy as np

import vi_contact as vc

HALF = np.pi / 6.0  # half the angle between the legs [rad]


def change_legs(state: vc.State) -> tuple[list[float], list[float]]:
    (foot, angle), (slip, rate) = state.q, state.v
    return [foot, angle + 2.0 * HALF], [slip, np.cos(2.0 * HALF) * rate]


EVENTS = (
    vc.Event(lambda state: state.q[1] + HALF, change_legs, direction=-1, name="step"),
    vc.Event(lambda state: state.q[1] - np.pi / 2.0, terminal=True, name="fall"),
)


def plot(run: vc.Trajectory, path: str | None) -> None:
    if path:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = ("lean of the leg [deg]", "place of the foot [m]", "energy [J]")
    values = (np.degrees(run.q[:, 1]), run.q[:, 0], run.energy)
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(7, 6))
    for axis, curve, label in zip(axes, values, labels, strict=True):
        axis.plot(run.time, curve)
        axis.set_ylabel(label)
        for what in run.occurrences:
            axis.axvline(what.time, color="grey", linestyle=":")
    axes[-1].set_xlabel("time [s]")
    figure.tight_layout()
    if path:
        figure.savefig(path, dpi=150)
    else:
        plt.show()
    plt.close(figure)


def main(arguments: list[str] | None = None) -> list[tuple[str, float]]:
    """Runs it from -4 rad/s; returns the events with their times [s]."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-viewer", action="store_true", help="do not open a window")
    parser.add_argument("--plot", metavar="FILE", help="write the plot to a file")
    parser.add_argument("--html", metavar="FILE", help="write an animation")
    options = parser.parse_args(arguments)
    sim = vc.Simulator(vc.load_robot("walker"), time_step=0.005, events=EVENTS)
    sim.reset([0.0, HALF], [0.0, -4.0])
    run = sim.run(4.0)
    if options.plot or not options.no_viewer:
        plot(run, options.plot)
    if options.html:
        run.to_html(options.html)
    for what in run.occurrences:
        before, *_, after = run.energy[np.abs(run.time - what.time) < 1e-12].repeat(2)
        print(f"{what.name} at {what.time:.6f} s, energy {before:.4f} J -> {after:.4f} J")
    print(f"slipping took {-run.ledger.damping.sum():.4f} J")
    return [(what.name, what.time) for what in run.occurrences]


if __name__ == "__main__":
    main()
