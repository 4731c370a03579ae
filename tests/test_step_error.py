"""Steps that go too far are taken in parts; every step knows an estimate of its error."""

import math

import numpy as np
import pytest
from mechanisms import closed_leg
from motion import chain_urdf, unlimited
from urdf_text import write

import vi_contact as vc
from vi_contact.errors import StepFailedError


def whipping_leg(time_step, time=10.0, **options):
    """The closed leg without motors, spring and limits, swung in flight by half a newton metre."""
    robot = unlimited(vc.load_robot("fly_hopper"))
    free = {"gravity": (0.0, 0.0, 0.0), "ground": None, "joint_limits": False}
    sim = vc.Simulator(robot, time_step, options=vc.SolverOptions(**options), **free)
    sim.reset(robot.neutral())
    middle = 0.5 * time_step

    def torques(state):
        angle = 2.0 * np.pi * (state.time + middle)
        return [0.5 * np.sin(angle), -0.5 * np.sin(angle + 0.3)]

    return sim.run(time, torques)


def test_a_closed_leg_in_flight_does_not_explode():
    # it gained 17 kJ at 0.01 and 280 kJ at 0.005: a turn near half a turn has almost no momentum
    converged = whipping_leg(0.0005).kinetic.max()
    assert 5.0 < converged < 15.0  # chaotic: 7 to 10 J, whatever else is changed
    for time_step in (0.01, 0.005):
        trajectory = whipping_leg(time_step)
        assert converged / 1.5 < trajectory.kinetic.max() < 1.5 * converged
        assert trajectory.parts.max() > 1
        assert trajectory.constraint_error.max() < 1e-11
        # parts are booked, too; 200 rad/s times what is accepted of a momentum, 1e-10 N m s
        assert np.abs(trajectory.ledger.defect).max() < 1e-7


def test_without_parts_such_a_motion_has_a_status():
    with pytest.raises(StepFailedError, match="turns too fast for a step") as failed:
        whipping_leg(0.01, max_halvings=0)
    assert failed.value.status == "ROTATION"


def swing(robot, time_step, seed):
    """Five seconds in flight, under torques on both hips that swing at random rates."""
    rng = np.random.default_rng(seed)
    phase, rate = rng.uniform(0.0, 2.0 * np.pi, 2), rng.uniform(0.3, 1.5, 2)
    hips = [robot.actuated_joints.index(name) for name in ("hip_1", "hip_2")]
    sim = vc.Simulator(robot, time_step, gravity=(0.0, 0.0, 0.0), ground=None)

    def torques(state):
        tau = np.zeros(robot.nu)
        tau[hips] = 0.1 * np.sin(2.0 * np.pi * rate * (state.time + 0.5 * time_step) + phase)
        return tau

    return sim.run(5.0, torques)


@pytest.mark.parametrize("seed", range(20))
def test_random_closed_legs_keep_their_energy(tmp_path, seed):
    # largest energy is no measure here: the motion is chaotic. What the scheme adds is
    robot = vc.load_robot(write(tmp_path, closed_leg(seed)), contacts="none")
    for time_step in (0.01, 0.005):
        trajectory = swing(robot, time_step, seed)
        added = np.abs(np.cumsum(trajectory.ledger.integration)).max()
        # 5 % in the worst of sixty; 78 % where only turns are bounded
        assert added < 0.1 * trajectory.kinetic.max()


def test_the_error_of_a_step_falls_with_its_third_power(tmp_path):
    robot = vc.load_robot(chain_urdf(tmp_path, 3))
    errors = []
    for time_step in (0.01, 0.005, 0.0025):
        sim = vc.Simulator(robot, time_step)
        sim.reset(v=[2.0, -3.0, 1.0])
        trajectory = sim.run(0.2)
        errors.append(trajectory.errors.max())
        assert sim.info.error == trajectory.errors[-1]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 3.0, atol=0.1)


def test_the_error_of_a_turn_is_that_of_its_sine(tmp_path):
    robot = vc.load_robot(chain_urdf(tmp_path, 1))
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0))
    assert math.isnan(sim.info.error)
    sim.reset(v=[40.0])
    sim.step()
    turn = np.arcsin(0.4)  # which has the momentum of 40 rad/s
    assert sim.info.parts == 1
    # velocity_tolerance of 40 rad/s over the step
    assert sim.info.error == pytest.approx(turn - np.sin(turn), abs=1e-9 * 0.4)
    sim.reset()
    assert math.isnan(sim.info.error)


def test_a_body_that_turns_far_is_followed_in_parts(tmp_path):
    robot = vc.load_robot(chain_urdf(tmp_path, 1))
    sim = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0))
    # a part may turn by 0.6 rad, at 56 rad/s
    for speed, parts in ((39.0, 1), (75.0, 2), (300.0, 8), (2400.0, 64)):
        sim.reset(v=[speed])
        sim.step()
        assert sim.info.parts == parts
        turn = parts * np.arcsin(speed * 0.01 / parts)
        q = sim.state.q
        assert math.remainder(math.atan2(q[1], q[0]) - turn, 2.0 * np.pi) == pytest.approx(
            0.0,
            abs=1e-9 * 0.01 * speed,  # velocity_tolerance
        )
        assert sim.state.v[0] == pytest.approx(speed, rel=1e-12)  # residuals are carried


@pytest.mark.parametrize("solver", ["newton", "ipopt"])
def test_parts_add_up_their_errors(tmp_path, solver):
    robot = vc.load_robot(chain_urdf(tmp_path, 1))
    whole = vc.Simulator(robot, 0.02, gravity=(0.0, 0.0, 0.0), solver=solver)
    half = vc.Simulator(robot, 0.01, gravity=(0.0, 0.0, 0.0), solver=solver)
    for sim in (whole, half):
        sim.reset(v=[35.0])
    trajectory = half.run(0.02)
    assert whole.run(0.02).errors[0] == pytest.approx(trajectory.errors.sum(), rel=1e-6)
    whole.reset(v=[35.0])
    whole.step()
    assert whole.info.error == pytest.approx(trajectory.errors.sum(), rel=1e-6)


def test_steps_are_refined_on_request(tmp_path):
    robot = vc.load_robot(chain_urdf(tmp_path, 3))

    def run(time_step=0.02, **options):
        sim = vc.Simulator(robot, time_step, options=vc.SolverOptions(**options))
        sim.reset(v=[2.0, -3.0, 1.0])
        return sim.run(1.0)

    exact = run(1e-4).q[-1]
    distances = []
    for tolerance in (math.inf, 1e-4, 1e-5, 1e-6):
        trajectory = run(error_tolerance=tolerance)
        distances.append(np.abs(trajectory.q[-1] - exact).max())
        # every part is within it, and a step has as many as it needs
        assert (trajectory.errors <= tolerance * trajectory.parts).all()
        assert np.abs(trajectory.ledger.defect).max() < 1e-9
    assert all(np.divide(distances[1:-1], distances[2:]) > 2.0)
    assert distances[-1] < 5e-3 * distances[0]


def test_refined_steps_repeat_from_a_snapshot(tmp_path):
    robot = vc.load_robot(chain_urdf(tmp_path, 3))
    sim = vc.Simulator(robot, 0.02, options=vc.SolverOptions(error_tolerance=1e-5))
    sim.reset(v=[2.0, -3.0, 1.0])
    sim.run(0.1)
    snapshot = sim.snapshot()
    q = sim.run(0.1).q
    sim.restore(snapshot)
    assert (sim.run(0.1).q == q).all()


def test_an_impact_is_no_reason_for_parts():
    # velocities jump there, and the estimate with them
    robot = vc.load_robot("jumper")
    sim = vc.Simulator(robot, 0.01)
    q = robot.on_ground(robot.neutral())
    q[0] += 0.3
    sim.reset(q)
    trajectory = sim.run(0.5)
    assert trajectory.impacts
    landing = round(trajectory.impacts[0][0] / 0.01) - 1
    assert trajectory.errors[landing] > 1e-3
    assert trajectory.parts[landing] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_turn": 0.0}, "max_turn is 0.0"),
        ({"max_turn": 2.0}, "at most a quarter turn"),
        ({"max_turn": math.nan}, "max_turn is nan"),
        ({"error_tolerance": 0.0}, "error_tolerance is 0.0"),
        ({"error_tolerance": math.nan}, "error_tolerance is nan"),
        ({"error_tolerance": "1e-3"}, "error_tolerance is '1e-3'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(vc.ViContactError, match=message):
        vc.Simulator(vc.load_robot("walker"), options=vc.SolverOptions(**options))
