"""Hard contact with friction against analytic cases, at time steps of 0.1 to 0.005 s."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import STEPS, G, box, on_slope, slope, sphere
from urdf_text import INERTIAL, joint, link, robot, write

import vi_contact as vc

LYING = [0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]

pytestmark = pytest.mark.parametrize("time_step", STEPS)
both_solvers = pytest.mark.parametrize("solver", ["newton", "ipopt"])


def deepest(trajectory: vc.Trajectory) -> float:
    return -min(float(trajectory.contacts[name].gap.min()) for name in trajectory.contacts)


@pytest.mark.parametrize(
    ("degrees", "solver"), [(30.0, "newton"), (60.0, "newton"), (30.0, "ipopt")]
)
def test_box_slides_to_rest_where_it_must(tmp_path, time_step, degrees, solver):
    mu, speed = 0.3, 2.0
    direction = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 0.0])
    sim = vc.Simulator(box(tmp_path), time_step, ground=vc.Ground(friction=mu), solver=solver)
    sim.reset(LYING, np.concatenate([speed * direction, np.zeros(3)]))
    trajectory = sim.run(1.5)
    way = trajectory.q[-1, :3]
    # exact but in the last step, where the speed left, below mu g h, ends: mu g h^2 / 8 at most
    assert way @ direction == pytest.approx(speed**2 / (2 * mu * G), abs=mu * G * time_step**2 / 8)
    # a pyramid of four sides would turn it by degrees; here the solver's tolerance over 150 steps
    assert abs(np.cross(direction, way)[2]) < 1e-10
    assert np.abs(trajectory.v[-1]).max() < 1e-8
    assert deepest(trajectory) < 1e-11
    # the friction takes the kinetic energy, 1/2 m v^2 = 4 J, and nothing else acts
    assert trajectory.ledger.friction.sum() == pytest.approx(-4.0, abs=1e-9)
    assert np.abs(trajectory.ledger.defect).max() < 1e-9


@both_solvers
def test_box_sticks_on_a_slope_below_the_friction_angle(tmp_path, time_step, solver):
    angle = 0.95 * np.arctan(0.8)
    sim = vc.Simulator(box(tmp_path), time_step, ground=slope(angle), solver=solver)
    sim.reset(on_slope(0.1, angle))
    trajectory = sim.run(100.0 if solver == "newton" else 30 * time_step)
    # one tolerance of 1e-12 m in all, not one per step; IPOPT's is 1e-9 of the fall of a step, and
    # near the edge of the cone that moves a contact twenty times as far, 1 / (1 - 0.95)
    most = 1e-11 if solver == "newton" else 1e-11 + 20 * 1e-9 * G * time_step**2
    assert np.abs(trajectory.q - trajectory.q[0]).max() < most
    assert np.abs(trajectory.v[-1]).max() < 1e-8
    assert not any(trajectory.contacts[name].sliding.any() for name in trajectory.contacts)


@both_solvers
def test_box_slips_on_a_steeper_slope(tmp_path, time_step, solver):
    angle, mu = 0.5, 0.3
    sim = vc.Simulator(box(tmp_path), time_step, ground=slope(angle, friction=mu), solver=solver)
    sim.reset(on_slope(0.1, angle))
    trajectory = sim.run(1.0)
    acceleration = G * (np.sin(angle) - mu * np.cos(angle))
    way = np.linalg.norm(trajectory.q[-1, :3] - trajectory.q[0, :3])
    # constant acceleration is followed exactly; left are tolerances over 200 steps
    assert way == pytest.approx(0.5 * acceleration, abs=1e-9)
    assert np.linalg.norm(trajectory.v[-1, :3]) == pytest.approx(acceleration, abs=1e-8)


@both_solvers
def test_sphere_rolls_down_a_slope(tmp_path, time_step, solver):
    angle, radius, time = 0.2, 0.1, 0.5
    sim = vc.Simulator(sphere(tmp_path, radius), time_step, ground=slope(angle), solver=solver)
    sim.reset(on_slope(radius, angle))
    trajectory = sim.run(time)
    acceleration = G * np.sin(angle) * 5.0 / 7.0
    way = np.linalg.norm(trajectory.q[-1, :3] - trajectory.q[0, :3])
    # second order: the turn per step, a t h / r, enters by its square
    turn = acceleration * time * time_step / radius
    assert way == pytest.approx(0.5 * acceleration * time**2, rel=0.1 * turn**2)
    assert deepest(trajectory) < 1e-11


def test_tossed_box_comes_to_rest_on_a_face(tmp_path, time_step):
    sim = vc.Simulator(box(tmp_path), time_step, ground=vc.Ground(friction=0.5))
    rng = np.random.default_rng(3)
    for _ in range(3):
        quat = rng.normal(size=4)
        q = np.concatenate([[0.0, 0.0, 0.6], quat / np.linalg.norm(quat)])
        sim.reset(q, rng.normal(size=6) * [1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
        trajectory = sim.run(6.0)
        assert np.abs(trajectory.v[-1]).max() < 1e-8
        gaps = np.sort([trajectory.contacts[name].gap[-1] for name in trajectory.contacts])
        assert np.abs(gaps[:4]).max() < 1e-9  # a face
        assert deepest(trajectory) < 1e-9
        weight = trajectory.contacts.total_force[-1]
        np.testing.assert_allclose(weight, [0.0, 0.0, 2.0 * G], atol=1e-4)  # tolerances over h


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9])
def test_ball_bounces(tmp_path, time_step, restitution):
    height = 1.0
    ground = vc.Ground(restitution=restitution)
    sim = vc.Simulator(sphere(tmp_path), time_step, ground=ground)
    sim.reset([0.0, 0.0, 0.1 + height, 0.0, 0.0, 0.0, 1.0])
    fall = np.sqrt(2.0 * height / G)
    trajectory = sim.run(fall * (1.0 + 1.5 * restitution) + 2 * time_step)
    z = trajectory.q[:, 2] - 0.1
    after = z[round(fall / time_step) + 1 :].max()
    # the energy is exact, and nodes miss the top by g h^2 / 8; a ball that should not come as high
    # as it turns, up to one step's fall above the ground, stops there instead
    fall = np.sqrt(2.0 * G * height) * time_step
    exact = restitution**2 * height > fall
    assert abs(after - restitution**2 * height) < (G * time_step**2 / 8 if exact else fall) + 1e-9
    assert z.min() > -1e-10


@pytest.mark.parametrize("solver", ["newton", "ipopt"])
def test_a_ball_that_is_pushed_down_bounces_as_high(tmp_path, time_step, solver):
    # 2 kg and 40 N: it falls and rises with 29.81 m/s2, and with restitution 1 keeps its energy
    sim = vc.Simulator(
        sphere(tmp_path), time_step, ground=vc.Ground(restitution=1.0), solver=solver
    )
    sim.reset([0.0, 0.0, 1.1, 0.0, 0.0, 0.0, 1.0])
    pull, period = G + 20.0, 2.0 * np.sqrt(2.0 / (G + 20.0))
    bounces = 4 if solver == "newton" else 1
    run = sim.run(bounces * period + 2 * time_step, wrenches={"body": [0, 0, -40.0, 0, 0, 0]})
    energy = 0.5 * run.v[:, 2] ** 2 + pull * (run.q[:, 2] - 0.1)
    assert len(run.impacts) >= bounces
    np.testing.assert_allclose(energy, pull, rtol=1e-7)


def test_joint_stops_at_its_limit(tmp_path, time_step):
    swing = joint(
        "hinge", "world", "arm", limit='<limit lower="-0.5" upper="0.5" effort="9" velocity="99"/>'
    )
    body = INERTIAL.replace("<mass", '<origin xyz="0.5 0 0"/><mass')
    file = write(tmp_path, robot(link("world", ""), link("arm", body), swing))
    sim = vc.Simulator(vc.load_robot(file), time_step)
    trajectory = sim.run(3.0)
    assert trajectory.q.max() < 0.5 + 1e-10  # tolerance of the step
    assert trajectory.q[-1, 0] == pytest.approx(0.5, abs=1e-10)
    assert np.abs(trajectory.v[-1]).max() < 1e-8
    with pytest.raises(vc.errors.JointLimitError, match="'hinge'"):
        sim.reset([0.6])


def test_joint_friction_brakes_and_holds(tmp_path, time_step):
    axis = joint("axis", "world", "wheel", "continuous", '<dynamics friction="0.3"/>', limit="")
    file = write(tmp_path, robot(link("world", ""), link("wheel"), axis))
    sim = vc.Simulator(vc.load_robot(file), time_step)
    inertia, torque, speed = 0.1, 0.3, 2.0
    sim.reset(v=[speed])
    trajectory = sim.run(2.0)
    angle = np.arctan2(trajectory.q[-1, 1], trajectory.q[-1, 0])
    slowing = torque / inertia
    assert angle == pytest.approx(speed**2 / (2 * slowing), abs=slowing * time_step**2 / 8)
    held = sim.run(1.0, controller=lambda state: [0.29])
    assert np.abs(held.q - held.q[0]).max() < 1e-11


def test_runs_are_the_same_bit_for_bit(tmp_path, time_step):
    hopper = vc.load_robot("fly_hopper")
    q = hopper.on_ground(hopper.neutral())
    q[2] += 0.2
    runs = []
    for _ in range(2):
        sim = vc.Simulator(hopper, min(time_step, 0.02))
        sim.reset(q)
        sim.run(0.3)
        snapshot = sim.snapshot()
        first = sim.run(0.3)
        sim.restore(snapshot)
        np.testing.assert_array_equal(sim.run(0.3).q, first.q)
        runs.append(first)
    np.testing.assert_array_equal(runs[0].q, runs[1].q)
    np.testing.assert_array_equal(runs[0].v, runs[1].v)


@pytest.mark.parametrize("mass", [1e-3, 1e3])
def test_box_of_any_mass_lies_still(tmp_path, time_step, mass):
    sim = vc.Simulator(box(tmp_path, mass=mass), time_step)
    sim.reset([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    trajectory = sim.run(5.0)
    # round-off of positions; no jitter
    assert np.abs(trajectory.q - trajectory.q[0]).max() < 1e-11
    assert np.abs(trajectory.v[1:]).max() < 1e-8


def test_pushed_box_at_a_margin_of_twenty_does_not_creep(tmp_path, time_step):
    sim = vc.Simulator(box(tmp_path), time_step, ground=vc.Ground(friction=0.8))
    start = sim.reset([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    push = [0.8 * 2.0 * G / 20.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    for _ in range(round(10.0 / time_step)):
        state = sim.step(wrenches={"body": push})
    assert np.abs(state.q - start.q).max() < 1e-11  # one tolerance, not one per step


# ------------------------------------------------------------ forces from the first step on
@pytest.mark.parametrize(
    ("law", "solver"), [(None, "newton"), (None, "ipopt"), (vc.PlasticContact(), "newton")]
)
def test_a_box_that_rests_shows_its_weight_from_the_first_step_on(tmp_path, time_step, law, solver):
    sim = vc.Simulator(box(tmp_path), time_step, contact=law, solver=solver)
    sim.reset(LYING)
    trajectory = sim.run(10 * time_step)
    # IPOPT's products of impulse and gap, 1e-9 of the weight times the fall of a step
    most = 1e-7 if solver == "newton" else 1e-4
    np.testing.assert_allclose(trajectory.contacts.total_force, 10 * [[0, 0, 2.0 * G]], atol=most)
    # round-off of m g h by the inertia of its corners; IPOPT's as above
    assert np.abs(trajectory.v).max() < (1e-13 if solver == "newton" else 1e-8)


@both_solvers
def test_a_box_that_slides_shows_its_friction_from_the_first_step_on(tmp_path, time_step, solver):
    mu = 0.3
    sim = vc.Simulator(box(tmp_path), time_step, ground=vc.Ground(friction=mu), solver=solver)
    sim.reset(LYING, [2.0, 0, 0, 0, 0, 0])
    trajectory = sim.run(5 * time_step)
    expected = 2.0 * G * np.array([-mu, 0.0, 1.0])
    most = 1e-7 if solver == "newton" else 1e-4  # see above
    np.testing.assert_allclose(trajectory.contacts.total_force, 5 * [expected], atol=most)
    # the motion is exact from the first step on, as before
    t = trajectory.time
    np.testing.assert_allclose(trajectory.q[:, 0], 2.0 * t - 0.5 * mu * G * t**2, atol=1e-8)


@pytest.mark.parametrize("law", [None, vc.PlasticContact()])
def test_events_do_not_change_the_force_of_a_box_that_rests(tmp_path, time_step, law):
    """Steps of other lengths, and a start in the midst of a run."""
    done = []

    def begin_again(state):
        done.append(state.time)
        return state.q, 0.0 * state.v

    again = vc.Event(lambda state: 1.0 if done else state.time - 3.3 * time_step, begin_again)
    look = vc.Event(lambda state: state.time - 5.1 * time_step)
    sim = vc.Simulator(box(tmp_path), time_step, contact=law, events=[again, look])
    sim.reset(LYING)
    trajectory = sim.run(8 * time_step)
    lengths = np.diff(trajectory.time)
    assert len(lengths) == 11  # eight, two of them cut, and a reset without length
    force = trajectory.contacts.total_force[lengths > 0.0, 2]
    np.testing.assert_allclose(force, 2.0 * G, atol=1e-6)  # tolerances over a tenth of a step


@pytest.mark.parametrize("law", [None, vc.PlasticContact()])
def test_an_impact_that_begins_the_motion_counts_once(tmp_path, time_step, law):
    """Its impulse is that of the step, beside half the weight or all of it."""
    speed = 3.0 + 20.0 * time_step
    sim = vc.Simulator(box(tmp_path), time_step, contact=law)
    sim.reset(LYING, [0, 0, -speed, 0, 0, 0])
    trajectory = sim.run(5 * time_step)
    impulse = trajectory.contacts.total_force[:, 2].sum() * time_step
    given = 2.0 * speed + 2.0 * G * 5 * time_step
    assert given - 1.01 * G * time_step <= impulse <= given + 1e-9


def test_a_box_on_an_obstacle_shows_its_weight_from_the_first_step_on(tmp_path, time_step):
    table = vc.Obstacle.box((2.0, 2.0, 0.2), position=(0.0, 0.0, -0.1), name="table")
    sim = vc.Simulator(box(tmp_path), time_step, ground=None, obstacles=[table])
    sim.reset(LYING)
    force = sim.run(10 * time_step).contacts["body/table"].force
    np.testing.assert_allclose(force, 10 * [[0.0, 0.0, 2.0 * G]], atol=1e-6)  # as above
