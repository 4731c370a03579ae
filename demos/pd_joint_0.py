"""The published experiment: PD control of the Fly-Hopper's hips in zero gravity.

    python demos/pd_joint_0.py [--no-viewer] [--plot pd.png]

Joint-space PD with kp = 5, kd = 0.15 at h = 0.01 s for one second, the base free, without the
parallel spring, as in the paper. The paper's targets of -40 and -140 degrees are angles of the
links; the hips' zero is at -30 and -148.5 degrees of those.
"""

from __future__ import annotations

import argparse

import matplotlib
import numpy as np

import vi_contact as vc

KP, KD = 5.0, 0.15
LINK_TARGETS = np.radians([-40.0, -140.0])
LINK_ZEROS = -np.array([np.pi / 6.0, np.pi - 0.55027])
TARGETS = LINK_TARGETS - LINK_ZEROS


class HipController:
    """tau = kp (target - q) - kd v on joints 0 and 2."""

    def __init__(self, robot: vc.Robot) -> None:
        hips = [robot.joints[robot.joint_names.index(name)] for name in robot.actuated_joints]
        self.q_index = [hip.idx_q for hip in hips]
        self.v_index = [hip.idx_v for hip in hips]

    def __call__(self, state: vc.State) -> np.ndarray:
        return KP * (TARGETS - state.q[self.q_index]) - KD * state.v[self.v_index]


def plot(trajectory: vc.Trajectory, controller: HipController, path: str | None) -> None:
    if path:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (angles, torques) = plt.subplots(2, 1, sharex=True, figsize=(7, 5))
    for k, name in enumerate(("joint 0", "joint 2")):
        angle = np.degrees(trajectory.q[:, controller.q_index[k]] + LINK_ZEROS[k])
        [line] = angles.plot(trajectory.time, angle, label=name)
        angles.axhline(np.degrees(LINK_TARGETS[k]), color=line.get_color(), linestyle=":")
        torques.step(trajectory.time[:-1], trajectory.tau[:, k], where="post")
    angles.set_ylabel("link angle [deg]")
    angles.legend()
    torques.set_ylabel("torque [Nm]")
    torques.set_xlabel("time [s]")
    figure.tight_layout()
    if path:
        figure.savefig(path, dpi=150)
    else:
        plt.show()
    plt.close(figure)


def main(arguments: list[str] | None = None) -> float:
    """Runs the experiment; returns the error of joint 0 at the end [rad]."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-viewer", action="store_true", help="do not open a window")
    parser.add_argument("--plot", metavar="FILE", help="write the plot to a file")
    options = parser.parse_args(arguments)
    robot = vc.load_robot("fly_hopper").with_parts(springs=())
    controller = HipController(robot)
    sim = vc.Simulator(robot, time_step=0.01, gravity=(0.0, 0.0, 0.0), ground=None)
    trajectory = sim.run(1.0, controller)
    if options.plot or not options.no_viewer:
        plot(trajectory, controller, options.plot)
    error = float(trajectory.q[-1, controller.q_index[0]] - TARGETS[0])
    print(f"joint 0 ends {np.degrees(error):+.3f} deg from its target")
    print(f"loop open by at most {trajectory.constraint_error.max():.1e} m")
    drift = np.abs(trajectory.linear_momentum).max(), np.abs(trajectory.angular_momentum).max()
    print(f"momentum of the free robot at most {drift[0]:.1e} Ns, {drift[1]:.1e} Nms")
    return error


if __name__ == "__main__":
    main()
