"""What is printed fits on a screen and says what it is."""

import numpy as np
import pytest

import vi_contact as vc


@pytest.fixture(scope="module")
def sim():
    hopper = vc.load_robot("fly_hopper")
    table = vc.Obstacle.box((1.0, 1.0, 0.1), position=(3.0, 0.0, 0.05), name="table")
    sim = vc.Simulator(hopper, obstacles=table)
    sim.run(0.5)
    return sim


def test_everything_is_short(sim):
    trajectory = sim.run(0.5)
    tau = np.zeros((3, 200, 2))
    rollout = vc.rollout(sim.robot, 0.01, sim.robot.on_ground(sim.robot.neutral()), None, tau)
    foot = trajectory.contacts["foot"]
    shown = [
        (sim, "Simulator('fly_hopper', time_step=0.01, ground=Ground(friction=0.8"),
        (sim.snapshot(), "Snapshot(time=1, robot 'fly_hopper')"),
        (trajectory, "Trajectory('fly_hopper', 50 steps"),
        (trajectory.contacts, "contacts over 50 steps: foot, base/table"),
        (foot, f"ContactRecord(50 steps, touches in {np.count_nonzero(foot.force[:, 2])}, slides"),
        (trajectory.ledger, "Ledger(50 steps, in all [J]: motor "),
        (rollout, "Rollout(3 runs of 200 steps: 3 converged)"),
        (sim.body_pairs, "may meet: base/table"),
    ]
    for thing, words in shown:
        assert words in repr(thing)
        assert len(repr(thing)) < 300


def test_the_simulator_says_where_it_is(sim):
    assert f"obstacles: table; at t = {sim.state.time:g} s)" in repr(sim)
