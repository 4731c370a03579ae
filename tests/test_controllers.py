"""Controllers: what they promise, at steps and gains where explicit ones fail."""

import numpy as np
import pytest
from urdf_text import pair, write

import vi_contact as vc
from vi_contact.controllers import JointPD, VerticalHopper, actuated_positions, gravity_torques


@pytest.fixture
def leg():
    """The Fly-Hopper's closed leg on a fixed base, without its spring."""
    return vc.load_robot("fly_hopper", base="fixed").with_parts(springs=())


def hanging(robot, time_step=0.01):
    return vc.Simulator(robot, time_step, ground=None)


def test_stiff_gains_are_stable_at_a_large_step(leg):
    """kp h^2 / J = 1e5 1e-4 / 2e-3 = 5000: an explicit PD shakes as fast as its motors can."""
    hold = actuated_positions(leg, leg.neutral())
    controller = JointPD(leg, hold, kp=1e5, kd=300.0)
    sim = hanging(leg)
    trajectory = sim.run(1.0, controller)
    error = trajectory.q[-1, leg.actuated_dofs] - hold
    assert 0.0 < np.abs(error).max() < 5e-5  # less than 5 Nm of weight on 1e5 Nm/rad
    assert np.abs(np.diff(trajectory.q[-20:], axis=0)).max() < 1e-5  # it stands
    # the midpoint rule damps the fastest modes of so stiff a drive slowly: v rings, q does not
    assert np.abs(trajectory.v[-1]).max() < 1e-2

    def explicit(state):
        q, v = state.q[leg.actuated_dofs], state.v[leg.actuated_dofs]
        return 1e5 * (hold - q) - 300.0 * v

    sim.reset()
    shaking = sim.run(1.0, explicit, throw=False)
    assert np.abs(shaking.v[-20:]).max() > 1.0


@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (3.0, 0.0, -5.0)])
def test_gravity_compensation_holds_a_closed_leg_without_stiffness(leg, gravity):
    controller = JointPD(leg, kp=0.0, kd=0.0, gravity_compensation=True, gravity=gravity)
    sim = vc.Simulator(leg, 0.01, gravity=gravity, ground=None)
    trajectory = sim.run(0.5, controller)
    assert np.abs(trajectory.v).max() < 1e-9  # round-off: it hangs still
    assert np.abs(trajectory.tau).max() > 0.1  # and the motors do carry it


def test_gravity_torques_of_a_tree_are_pinocchios(tmp_path):
    import pinocchio as pin

    robot = vc.load_robot(write(tmp_path, pair()), base="fixed")
    q = pin.randomConfiguration(robot.model, -np.ones(robot.nq), np.ones(robot.nq))
    expected = pin.computeGeneralizedGravity(robot.model, robot.model.createData(), q)
    mine = gravity_torques(robot, q, np.array([0.0, 0.0, -9.81]))
    np.testing.assert_allclose(mine, expected[robot.actuated_dofs], atol=1e-9)  # least squares


@pytest.mark.parametrize(
    ("kp", "kd", "carried"), [(2000.0, 50.0, False), (2000.0, 50.0, True), (200.0, 5.0, True)]
)
def test_a_moving_reference_is_followed_to_second_order(leg, kp, kd, carried):
    """Read at the start of the step it would be followed half a step late: 0.66 rad/s h/2."""
    hips, slow = leg.actuated_dofs, np.array([2.0, 1.5])

    def place(time):
        return 0.33 * np.sin(slow * time)

    def speed(time):
        return 0.33 * slow * np.cos(slow * time)

    ends, errors = [], []
    for h in (0.01, 0.005, 0.0025, 0.00125):
        pd = JointPD(leg, place, speed, kp=kp, kd=kd, gravity_compensation=carried)
        smooth = vc.Simulator(leg, h, ground=None, joint_limits=False)  # no Coulomb friction
        trajectory = smooth.run(2.0, pd)
        late = trajectory.time > 1.0
        error = trajectory.q[late][:, hips] - [place(time) for time in trajectory.time[late]]
        ends.append(trajectory.q[-1])
        errors.append(np.abs(error).max())
    changes = np.abs(np.diff(ends, axis=0)).max(axis=1)
    np.testing.assert_allclose(np.log2(changes[:-1] / changes[1:]), 2.0, atol=0.15)
    # what the step adds to that of inertia and weight: 1.7e-5 rad; half a step would be 3.3e-3
    assert abs(errors[0] - errors[-1]) < 2e-5
    if carried:
        assert errors[0] < (3e-5 if kp == 2000.0 else 1.5e-4)  # what inertia takes: J w^2 / kp


def test_a_stiff_servo_reads_its_reference_where_it_acts(leg):
    """At h = 0.01 s these lean: the angle is read at 0.85 of the step."""
    hips = leg.actuated_dofs

    def place(time):
        return 0.33 * np.sin([2.0 * time] * 2)

    pd = JointPD(leg, place, lambda time: 0.66 * np.cos([2.0 * time] * 2), kp=1e5, kd=300.0,
                 gravity_compensation=True)  # fmt: skip
    sim = hanging(leg)
    trajectory = sim.run(2.0, pd)
    np.testing.assert_array_equal(sim._stepper.feedback(0.01)[hips, 0], 0.85)
    late = trajectory.time > 1.0
    error = trajectory.q[late][:, hips] - [place(time) for time in trajectory.time[late]]
    # (1 - alpha) alpha h^2 / 2 of the acceleration of 1.3 rad/s2; 3e-3 were it read at the start
    assert np.abs(error).max() < 1e-5


def test_torque_is_added(leg):
    push = JointPD(leg, kp=0.0, kd=0.0, tau=[1.0, -2.0])
    trajectory = hanging(leg).run(0.02, push)
    np.testing.assert_array_equal(trajectory.tau, [[1.0, -2.0]] * 2)


def test_actuated_positions_of_continuous_joints():
    robot = vc.load_robot("fly_hopper_wheels")
    positions = actuated_positions(robot, robot.neutral())
    assert positions.shape == (robot.nu,)
    np.testing.assert_allclose(positions[-3:], 0.0, atol=1e-12)  # the wheels


def test_hopper_wants_a_hopper():
    with pytest.raises(vc.ViContactError, match="fly_hopper_rail is"):
        VerticalHopper(vc.load_robot("fly_hopper"))
    with pytest.raises(vc.ViContactError, match="cannot be 0.9 m long"):
        VerticalHopper(vc.load_robot("fly_hopper_rail"), leg_length=0.9)


def test_foot_moves_as_the_jacobian_says():
    robot = vc.load_robot("fly_hopper_rail")
    hopper = VerticalHopper(robot)
    q = hopper.start
    p, jacobian = hopper.foot(q)
    np.testing.assert_allclose(p, [0.0, -0.45], atol=1e-9)  # as placed
    for k, hip in enumerate(robot.actuated_dofs):
        moved = q.copy()
        moved[hip] += 1e-6
        moved = robot.close_loops(moved, fixed=robot.actuated_joints)
        # one-sided difference of 1e-6: error of that order times the curvature
        np.testing.assert_allclose((hopper.foot(moved)[0] - p) / 1e-6, jacobian[:, k], atol=1e-5)
