"""Energy: bounded over long times, and every joule accounted for."""

from dataclasses import replace

import numpy as np
import pytest
from motion import bare, chain_urdf, example_robot, random_state, robot_of

import vi_contact as vc


def test_five_link_chain_has_no_trend_over_a_million_steps(tmp_path):
    robot = vc.load_robot(chain_urdf(tmp_path, 5))
    sim = vc.Simulator(robot, 0.01)
    q = robot.neutral()
    for joint in robot.joints:
        q[joint.idx_q : joint.idx_q + 2] = [np.cos(0.1), np.sin(0.1)]  # 0.5 rad at the tip
    sim.reset(q)
    energies = []
    for _ in range(10):  # of 100 000 steps each, compiled
        energies.append(sim.run(1000.0).energy)
    first, last = energies[0], energies[-1]
    assert abs(first.mean() - last.mean()) < min(first.std(), last.std())
    # the swing turns about 1 J of potential into kinetic energy and back
    assert np.ptp(np.concatenate(energies)) < 1e-3


def test_free_body_keeps_its_energy():
    robot = robot_of((), free=True, seed=1)
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0))
    sim.reset(v=[0.1, 0.2, 0.3, 3.0, 0.02, -1.0])
    energy = sim.run(100.0).energy
    # a free body keeps its energy up to the solver's tolerance, 1e-10 N m s times 3 rad/s
    assert np.ptp(energy) < 1e-9


@pytest.fixture(scope="module")
def busy_robot():
    """Free base, three joint types, damping, rotors, and a spring with damper."""
    robot = robot_of(("revolute", "prismatic", "spherical"), free=True, seed=2)
    robot.model.damping[6:] = 0.1
    robot.model.armature[6:] = 0.05
    robot = vc.from_pinocchio(robot.model)
    spring = vc.robot.parts.Spring(
        "s", 0, np.array([0.1, 0.0, 0.2]), 3, np.array([0.0, 0.1, 0.3]), 20.0, 0.1, 0.5
    )
    return bare(robot, springs=(spring,))


def busy_run(robot, time_step, time=1.0):
    rng = np.random.default_rng(3)
    q, v = random_state(robot, rng, 0.5)
    tau = 0.3 * rng.normal(size=robot.nu)
    sim = vc.Simulator(robot, time_step)
    sim.reset(q, v)
    push = {robot.bodies[1].name: [0.5, -0.2, 0.3, 0.05, 0.02, -0.04]}
    return sim.run(time, lambda state: tau * np.cos(state.time), wrenches=push)


def test_ledger_sums_to_the_change_of_energy(busy_robot):
    ledger = busy_run(busy_robot, 0.01).ledger
    # each entry is found on its own: an error of 1e-5 in one of them would show in the sum
    for entry in (ledger.motor, ledger.external, ledger.damping, ledger.integration):
        assert np.abs(entry).sum() > 1e-4
    assert (ledger.damping <= 0.0).all()
    # the sum misses the solver's tolerance, 1e-10 N s, times speeds of a few m/s
    assert np.abs(ledger.defect).max() < 1e-9


def test_integration_entry_is_second_order_in_total(busy_robot):
    coarse, fine = (abs(busy_run(busy_robot, h).ledger.integration.sum()) for h in (0.005, 0.0025))
    assert np.log2(coarse / fine) == pytest.approx(2.0, abs=0.2)


def test_ledger_of_a_hopper_with_loop_and_spring():
    hopper = vc.load_robot("fly_hopper")
    robot = bare(hopper, springs=tuple(replace(s, stiffness=100.0) for s in hopper.springs))
    sim = vc.Simulator(robot, 0.005)
    trajectory = sim.run(0.5, lambda state: np.array([0.05, -0.05]))
    assert np.abs(trajectory.ledger.defect).max() < 1e-9  # tolerances times speeds
    assert np.abs(trajectory.ledger.change).max() > 1e-3


def test_works_are_force_times_way(busy_robot):
    trajectory = busy_run(busy_robot, 0.01)
    body = 1
    moved = np.diff(trajectory.p_WB[:, body], axis=0) @ [0.5, -0.2, 0.3]
    spun = trajectory.ledger.external - moved
    # the torque of 0.07 N m works as well, over turns of up to 0.03 rad a step
    assert 1e-5 < np.abs(spun).max() < 0.07 * 0.05
    joint = busy_robot.joints[1]  # the first that is driven: a hinge
    way = np.diff(trajectory.q[:, joint.idx_q])
    driven = trajectory.tau[:, 0] * way
    others = trajectory.ledger.motor - driven
    assert np.abs(driven).sum() > 1e-3
    slide = busy_robot.joints[2]
    others -= trajectory.tau[:, 1] * np.diff(trajectory.q[:, slide.idx_q])
    ball = busy_robot.joints[3]
    mean = 0.5 * (trajectory.v[1:, ball.idx_v :] + trajectory.v[:-1, ball.idx_v :])
    others -= 0.01 * np.sum(trajectory.tau[:, 2:] * mean[:, :3], axis=1)
    # the trapezoidal rule for the ball joint is off at third order in the step
    assert np.abs(others).max() < 0.01 * np.abs(trajectory.ledger.motor).max()


def test_external_work_is_force_times_way():
    robot = robot_of((), free=True, seed=5)
    tight = vc.SolverOptions(
        momentum_tolerance=1e-14, velocity_tolerance=0.0
    )  # below what is compared
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0), options=tight)
    start = sim.state
    for _ in range(100):
        state = sim.step(wrenches={robot.bodies[0].name: [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]})
    way = state.p_WB[0, 0] - start.p_WB[0, 0]
    assert state.kinetic == pytest.approx(2.0 * way, rel=1e-12)  # exact for a constant force


def test_quadruped_falls_without_losing_energy():
    robot = example_robot("solo12.urdf")
    rng = np.random.default_rng(6)
    sim = vc.Simulator(robot, 0.005)
    sim.reset(*random_state(robot, rng, 1.0))
    trajectory = sim.run(2.0)
    # the potential energy falls by 480 J; the scheme's error is bounded and small against it
    assert np.ptp(trajectory.potential) > 400.0
    assert np.ptp(trajectory.energy) < 0.5


@pytest.mark.parametrize("speed", [120.0, 150.0, 170.0])
def test_split_steps_are_booked_like_whole_ones(speed):
    """The knee turns too fast for the step, which is split, and then meets its limit."""
    robot = vc.load_robot("jumper")
    sim = vc.Simulator(robot, 0.01, ground=None)
    q = robot.neutral()
    q[5] = -2.5
    sim.reset(q, [0.0, 0.0, 0.0, 0.0, speed])
    trajectory = sim.run(0.05)
    assert trajectory.parts.max() > 1
    assert np.abs(trajectory.ledger.defect).max() < 1e-9  # of 3000 J
    assert trajectory.ledger.impact.max() < 1e-9  # an attempt that failed must leave no trace
    assert trajectory.ledger.impact.min() < -1000.0


def test_long_chain_costs_no_iterations_for_round_off(tmp_path):
    # stretched over 64 m it turns like a rod: what is left of the residual is round-off, which
    # grows with the levers and must count as solved
    robot = vc.load_robot(chain_urdf(tmp_path, 320, planar=False))
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0))
    v = np.zeros(robot.nv)
    v[0] = 0.1
    sim.reset(v=v)
    run = sim.run(2.0)
    assert np.mean(run.iterations) < 0.2
    assert np.abs(run.v[:, 0] - 0.1).max() < 1e-6
    assert np.abs(run.v[:, 1:]).max() < 1e-6


def test_steps_of_a_violent_chain_are_solved(tmp_path):
    # links that turn at 3 rad/s at random: guesses are poor, and trials of old factors taken back
    links = 80
    robot = vc.load_robot(chain_urdf(tmp_path, links, planar=False))
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0))
    rates = 3.0 * np.random.default_rng(2).normal(size=(links + 2, 3))
    axis = 1 - np.arange(links) % 2
    v = rates[np.arange(links), axis]
    v[2:] -= rates[np.arange(links - 2), axis[2:]]
    sim.reset(v=v)
    run = sim.run(1.0)
    # 80 kg at 16 m about the root and 1e-9 times its speed, below 100 rad/s
    assert run.residuals.max() < 2e-3  # N m s
