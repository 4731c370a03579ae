"""In flight, internal torques change neither linear nor angular momentum."""

import numpy as np
import pytest
from motion import JOINT_MODELS, bare, example_robot, robot_of

import vi_contact as vc


def fly(robot, time_step, steps, torque, speed, gravity=(0.0, 0.0, 0.0), seed=0):
    """Torques that vary in time, so small that nothing turns by half a turn in a step."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0.0, 6.0, size=robot.nu)
    sim = vc.Simulator(robot, time_step, gravity)
    v = speed * rng.normal(size=robot.nv)
    sim.reset(v=v)
    trajectory = sim.run(
        steps * time_step, lambda state: torque * np.sin(3.0 * state.time + phases)
    )
    assert len(trajectory) == steps
    return trajectory


def drifts(trajectory):
    """Largest changes of linear and angular momentum relative to their sizes."""
    changes = []
    for momentum in (trajectory.linear_momentum, trajectory.angular_momentum):
        size = np.linalg.norm(momentum[0])
        changes.append(np.linalg.norm(momentum - momentum[0], axis=1).max() / size)
    return changes


def test_hopper_over_ten_thousand_steps():
    hopper = bare(vc.load_robot("fly_hopper"))
    linear, angular = drifts(fly(hopper, 0.01, 10_000, torque=0.002, speed=0.2))
    assert linear < 1e-10
    assert angular < 1e-8


def test_humanoid_over_ten_thousand_steps():
    robot = example_robot("talos_reduced.urdf")
    linear, angular = drifts(fly(robot, 0.01, 10_000, torque=0.05, speed=0.05))
    assert linear < 1e-10
    assert angular < 1e-8


@pytest.mark.parametrize("time_step", [0.1, 0.01, 0.001])
def test_humanoid_at_three_time_steps(time_step):
    # the anchor: Dojo reports 1e-14 to 1e-11 for a humanoid, MuJoCo 0.25 to 0.004
    robot = example_robot("talos_reduced.urdf")
    trajectory = fly(robot, time_step, 100, torque=0.05, speed=0.02)
    for momentum in (trajectory.linear_momentum, trajectory.angular_momentum):
        assert np.abs(momentum - momentum[0]).max() < 1e-10


@pytest.mark.parametrize("time_step", [0.05, 0.01])
@pytest.mark.parametrize("kind", JOINT_MODELS)
def test_every_joint_type(kind, time_step):
    robot = robot_of((kind, "revolute"), free=True, seed=1)
    linear, angular = drifts(fly(robot, time_step, 200, torque=0.05, speed=0.2))
    assert linear < 1e-12  # round-off of 200 steps
    assert angular < 1e-12


def test_gravity_gives_its_impulse_and_no_spin():
    robot = robot_of(("revolute", "spherical"), free=True, seed=2)
    trajectory = fly(robot, 0.01, 300, torque=0.05, speed=0.2, gravity=(0.3, 0.0, -9.81))
    weight = np.array([0.3, 0.0, -9.81]) * sum(body.mass for body in robot.bodies)
    expected = trajectory.linear_momentum[0] + np.outer(trajectory.time, weight)
    # 3 s of weight are about 90 N s
    np.testing.assert_allclose(trajectory.linear_momentum, expected, atol=1e-11, rtol=0.0)
    spin = trajectory.angular_momentum
    np.testing.assert_allclose(spin, np.tile(spin[0], (len(spin), 1)), atol=1e-11, rtol=0.0)


def test_external_wrench_gives_its_impulse():
    robot = robot_of(("revolute",), free=True, seed=3)
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0))
    force, torque = np.array([1.0, 2.0, -0.5]), np.array([0.1, -0.2, 0.3])
    first = sim.state
    for _ in range(50):
        sim.step(wrenches={robot.bodies[1].name: [*force, *torque]})
    last = sim.state
    masses = np.array([[body.mass] for body in robot.bodies])
    gained = (masses * (last.v_WB - first.v_WB)).sum(axis=0)
    np.testing.assert_allclose(gained, 0.5 * force, atol=1e-12, rtol=0.0)  # round-off


def test_torque_about_the_centre_of_mass_spins_a_single_body_up():
    robot = robot_of((), free=True, seed=4)
    sim = vc.Simulator(robot, 0.001, gravity=(0.0, 0.0, 0.0))
    for _ in range(100):
        sim.step(wrenches={robot.bodies[0].name: [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]})
    state = sim.state
    R = vc.robot.maximal.rotation_matrices(state.quat_WB_xyzw)[0]
    spin = R @ robot.bodies[0].inertia @ state.w_WB_B[0]
    np.testing.assert_allclose(spin, [0.01, 0.02, 0.03], atol=1e-13, rtol=0.0)  # round-off
