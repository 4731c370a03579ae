"""Steps of any length: the momentum at a node serves whatever interval comes next."""

import numpy as np
import pytest
from motion import GRAVITY, body_jacobian, robot_of, unlimited

import vi_contact as vc
from vi_contact.mechanics.discrete_lagrangian import step_balance
from vi_contact.solvers.newton import SolverOptions, make_stepper

LENGTHS = (0.01, 0.0037, 0.0101, 0.002, 0.01)
HOPPER = vc.load_robot("fly_hopper")
ROBOTS = {
    "branches": lambda: robot_of(
        ("revolute", "spherical", "prismatic", "planar"), True, parents=(1, 1, 2, 2)
    ),
    "five_bar": lambda: unlimited(HOPPER),
}


def stepper_of(robot, time_step=0.01):
    stepper = make_stepper(robot, time_step, GRAVITY, SolverOptions())
    rng = np.random.default_rng(1)
    v = np.zeros(robot.nv)
    v[:6] = rng.normal(size=6)  # a free base: loops stay closed
    stepper.reset(robot.neutral(), v)
    return stepper


def configuration(robot, stepper):
    q = np.empty(robot.nq)
    stepper.get_q(q)
    return q


def numbers(stepper):
    state = np.empty(stepper.state_size())
    stepper.get_state(state)
    return state


@pytest.mark.parametrize("name", ROBOTS)
def test_momentum_balance_holds_between_intervals_of_different_lengths(name):
    """Right momentum of one interval = left momentum of the next, by the CasADi equations."""
    robot = ROBOTS[name]()
    stepper = stepper_of(robot)
    tau, tree = np.full(robot.nu, 0.1), sum(joint.kind.rows for joint in robot.joints)
    torque = np.zeros(robot.nv)
    torque[robot.actuated_dofs] = tau
    q0, arriving = configuration(robot, stepper), None
    for h in LENGTHS:
        status, *_, parts, _, _ = stepper.step(tau, None, h)
        assert status == 0 and parts == 1
        q1 = configuration(robot, stepper)
        loops = stepper.multipliers()[: sum(loop.kind.rows for loop in robot.loops)]
        nodes = []
        for q in (q0, q1):
            state = robot.to_maximal(q)
            nodes += [state.p_WB.T, state.quat_WB_xyzw.T]
        nodes[3] = nodes[3] * np.sign((nodes[1] * nodes[3]).sum(axis=0))
        forces = np.concatenate([np.zeros(tree), loops])
        left, right = step_balance(robot, h, GRAVITY)(
            *nodes, torque, np.zeros((6, len(robot.bodies))), forces
        )
        if arriving is not None:
            leaving = body_jacobian(robot, q0).T @ left.full().ravel()
            # momenta of 10 N s; the step's tolerance is 1e-10 N s
            np.testing.assert_allclose(leaving, arriving, atol=1e-9)
        q0, arriving = q1, body_jacobian(robot, q1).T @ right.full().ravel()


def test_usual_length_is_the_usual_step_bit_for_bit():
    plain, given = stepper_of(HOPPER), stepper_of(HOPPER)
    for _ in range(20):
        plain.step(None, None)
        given.step(None, None, 0.01)
    np.testing.assert_array_equal(numbers(plain), numbers(given))


def test_steps_of_mixed_lengths_are_second_order():
    """A swing of the branches' joints to t = 0.2 s, in steps that vary by a factor of five."""
    robot = ROBOTS["branches"]()
    pattern, ends = np.array([1.0, 0.37, 1.13, 0.2, 1.3]), []
    for refinement in (4, 8, 256):
        stepper = stepper_of(robot)
        for h in np.tile(pattern, refinement) * 0.2 / (pattern.sum() * refinement):
            stepper.step(None, None, h)
        ends.append(configuration(robot, stepper))
    coarse, fine = (np.abs(end - ends[-1]).max() for end in ends[:-1])
    assert 3.5 < coarse / fine < 4.5  # second order: a quarter of the error


def test_push_changes_the_momentum_and_nothing_else():
    stepper = stepper_of(HOPPER)
    v0, v1, impulse = np.empty(HOPPER.nv), np.empty(HOPPER.nv), np.zeros(HOPPER.nv)
    stepper.get_v(v0)
    before = configuration(HOPPER, stepper)
    impulse[2] = HOPPER.mass * 0.5  # along the base's vertical axis
    stepper.push(impulse)
    stepper.get_v(v1)
    np.testing.assert_array_equal(configuration(HOPPER, stepper), before)
    scalars = np.empty((1, 9))
    stepper.observe(before[None], (v1 - v0)[None], scalars, None, None)
    # linear momentum is the impulse, to the loop projection's round-off
    np.testing.assert_allclose(scalars[0, 3:6], impulse[:3], atol=1e-9)


def test_interval_energy_is_the_derivative_of_the_discrete_action():
    """-dL_d/dh = T of the mean velocities + mean potential: a thrown body falls exactly."""
    robot = robot_of((), free=True)
    stepper = make_stepper(robot, 0.01, GRAVITY, SolverOptions())
    v = np.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    stepper.reset(robot.neutral(), v)
    h = 0.004
    stepper.step(None, None, h)
    expected = 0.5 * robot.mass * (2.0 - 9.81 * h / 2.0) ** 2
    assert stepper.interval_energy() == pytest.approx(expected, rel=1e-12)
