"""The Fly-Hopper hops in place on its rail: virtual leg spring, motors at their limits.

    vi-contact demo hop [--html hop.html] [--time 12] [--view] [--no-viewer]

In stance a virtual spring and what is missing of the energy push the foot down; in flight the leg
is placed. The motors give what their current and voltage allow; the parallel spring carries about
the robot's weight. Writes the report with the animation.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import vi_contact as vc
from vi_contact.controllers import VerticalHopper


class Figures(NamedTuple):
    hops: int
    height: float  # of the foot, mean of the last ten [m]
    spread: float  # largest difference of one of these from their mean, per mean
    loop_error: float
    slid: bool  # in a step after which it still stood; when it lifts off, the load vanishes
    saturated: float  # share of the steps with a motor at its limit


def main(arguments: list[str] | None = None) -> Figures:
    """Runs the hopper; returns its figures."""
    parser = argparse.ArgumentParser(prog="vi-contact demo hop", description=__doc__)
    parser.add_argument("--html", metavar="FILE", default="hop.html", help="default: hop.html")
    parser.add_argument("--time", type=float, default=12.0, help="default: 12 s")
    parser.add_argument("--view", action="store_true", help="watch it live in the browser")
    parser.add_argument("--no-viewer", action="store_true", help="do not write the report")
    options = parser.parse_args(arguments)
    robot = vc.load_robot("fly_hopper_rail")
    controller = VerticalHopper(robot)
    sim = vc.Simulator(robot, time_step=0.01)
    q = controller.start.copy()
    q[0] += 0.1  # a first fall
    sim.reset(q)
    if options.view:
        with vc.view(robot, q) as view:
            print(f"live: {view.url}", flush=True)
            trajectory = sim.run(options.time, controller, viewer=view)
    else:
        trajectory = sim.run(options.time, controller)
    figures = evaluate(robot, trajectory, controller.hops[1:])
    print(f"{figures.hops} hops in {options.time:g} s, simulated in {trajectory.wall_time:.2f} s")
    print(f"apex of the foot {figures.height:.4f} m, the last 10 hops within "
          f"{100 * figures.spread:.2f} %")  # fmt: skip
    print(f"five-bar open by at most {figures.loop_error:.1e} m; foot "
          f"{'slid' if figures.slid else 'never slid'} while it stood")  # fmt: skip
    print(f"a motor at its limit in {100 * figures.saturated:.0f} % of the steps")
    if not options.no_viewer:
        print(f"report: {trajectory.to_html(options.html).resolve()}")
    return figures


def evaluate(robot: vc.Robot, trajectory: vc.Trajectory, hops: list[float]) -> Figures:
    last = np.array(hops[-10:])
    peaks = [m.gear_ratio * m.torque_constant * m.current_limit for m in robot.motors]
    at_limit = np.abs(trajectory.tau) > np.array(peaks) - 1e-9  # [N m]; the cut is exact
    foot = trajectory.contacts["foot"]
    stands_on = foot.force[1:, 2] > 0.0
    return Figures(
        len(hops),
        float(last.mean()),
        float(np.abs(last / last.mean() - 1.0).max()),
        float(trajectory.constraint_error.max()),
        bool((foot.sliding[:-1] & stands_on).any()),
        float(at_limit.any(axis=1).mean()),
    )


if __name__ == "__main__":
    main()
