"""Springs and dampers between points: implicit, so stable at any stiffness and time step."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from motion import bare, observed_orders, random_state, robot_of
from urdf_text import write

import vi_contact as vc
from vi_contact.robot.parts import Spring
from vi_contact.solvers.newton import SolverOptions, make_stepper

WORLD = -1
NO_GRAVITY = (0.0, 0.0, 0.0)


def spring(body_1, body_2, stiffness, rest, damping=0.0, p_1=(0, 0, 0), p_2=(0, 0, 0)):
    ends = (np.array(p_1, dtype=float), np.array(p_2, dtype=float))
    return Spring("s", body_1, ends[0], body_2, ends[1], stiffness, rest, damping)


def masses(*values, joint=pin.JointModelFreeFlyer):
    """Balls that move by themselves."""
    model = pin.Model()
    model.name = "masses"
    for i, mass in enumerate(values):
        j = model.addJoint(0, joint(), pin.SE3.Identity(), f"ball_{i}")
        ball = pin.Inertia(mass, np.zeros(3), 1e-3 * mass * np.eye(3))
        model.appendBodyToJoint(j, ball, pin.SE3.Identity())
    return vc.from_pinocchio(model)


def slider(*springs, mass=1.0):
    return bare(masses(mass, joint=pin.JointModelPX), springs=springs)


# ------------------------------------------------------------------------------ stability
@pytest.mark.parametrize("stiff", [0.5, 2.02, 3.16, 100.0])
def test_an_oscillation_keeps_its_energy_at_any_step(stiff):
    h = 0.01
    sim = vc.Simulator(slider(spring(WORLD, 0, (stiff / h) ** 2, 1.0)), h, gravity=NO_GRAVITY)
    sim.reset([1.1])
    run = sim.run(10.0)
    assert np.abs(run.q - 1.0).max() < 0.1 + 1e-9
    # round-off of 1e-16 m beside a stretch of 0.1 m and of forces beside what is left of them, 1e4
    # times smaller where h w is 100, in 1000 steps
    assert np.ptp(run.energy) < 1e-9 * run.energy[0]
    assert np.abs(run.ledger.defect).max() < 1e-12 * max(run.energy[0], 1.0)


@pytest.mark.parametrize("heavy", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("light", [1e-3, 1.0])
def test_stiff_springs_neither_gain_energy_nor_lose_momentum(light, heavy):
    robot = bare(masses(light, heavy), springs=(spring(0, 1, 1e6, 0.3),))
    sim = vc.Simulator(robot, 0.02, gravity=NO_GRAVITY)
    q = robot.neutral()
    q[7:10] = [0.3, 0.0, 0.0]
    sim.reset(q, [0.2, 0.5, -0.1, 0.3, 1.0, -2.0, -0.1, -0.3, 0.4, 1.0, 0.2, 0.5])
    run = sim.run(200.0)
    # the line turns by 0.05 rad in a step: its square
    assert run.energy == pytest.approx(run.energy[0], rel=0.01)
    momentum = run.linear_momentum
    # round-off of 10 000 steps in m |x| / h, x up to 200 m
    assert np.abs(momentum - momentum[0]).max() < 1e-12 * max(1.0, 50.0 * heavy)
    spin = run.angular_momentum
    assert np.abs(spin - spin[0]).max() < 1e-12 * max(1.0, 50.0 * heavy)


def test_a_ball_on_a_stiff_spring_of_rest_length_zero():
    """Without a length there is no direction: all three are as stiff, from the very start."""
    robot = bare(masses(0.1), springs=(spring(WORLD, 0, 1e6, 0.0),))
    sim = vc.Simulator(robot, 0.02, gravity=NO_GRAVITY)
    sim.reset(None, [0.3, 0.4, -0.1, 0.0, 0.0, 0.0])
    run = sim.run(20.0)
    assert run.energy == pytest.approx(run.energy[0], rel=1e-9)  # linear: only round-off
    assert np.abs(run.q[:, :3]).max() < 1e-3


@pytest.mark.parametrize("stiffness", [0.0, 4.0])
def test_a_damper_acts_through_the_length_zero(stiffness):
    """m x'' = -c x' - k x along a line, at second order, from the length zero on and through it."""
    damping, errors = 0.8, []
    for h in (0.02, 0.01):
        part = spring(WORLD, 0, stiffness, 0.0, damping)
        sim = vc.Simulator(slider(part), h, gravity=NO_GRAVITY)
        sim.reset([0.0], [1.0])
        run = sim.run(4.0)
        rate, time = 0.5 * damping, run.time
        if stiffness:
            omega = np.sqrt(stiffness - rate**2)
            exact = np.exp(-rate * time) * np.sin(omega * time) / omega
        else:
            exact = (1.0 - np.exp(-damping * time)) / damping
        errors.append(np.abs(run.q[:, 0] - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


def test_points_that_coincide_are_pushed_apart_along_their_motion():
    """A spring with a rest length has no direction at length zero; that of the motion counts."""
    sim = vc.Simulator(slider(spring(WORLD, 0, 9.0, 1.0)), 0.001, gravity=NO_GRAVITY)
    still = sim.reset([0.0])
    assert still.potential == pytest.approx(4.5)
    assert sim.run(0.1).q[-1] == 0.0  # the balance of all directions
    sim.reset([0.0], [1.0])
    run = sim.run(0.5)
    exact = 1.0 - np.cos(3.0 * run.time) + np.sin(3.0 * run.time) / 3.0
    np.testing.assert_allclose(run.q[:, 0], exact, atol=1e-5)  # h^2 w^2


def test_two_springs_side_by_side_are_one_of_both_stiffnesses():
    one = spring(WORLD, 0, 3e5, 0.5, 7.0, p_1=(0.1, 0, 0.5), p_2=(0.1, 0, 0))
    both = tuple(replace(one, stiffness=one.stiffness / 2, damping=3.5) for _ in range(2))
    idle = replace(one, body_1=0, p_1=np.array([1.0, 0.0, 0.0]), stiffness=1e6)
    runs = []
    for springs in ((one,), both, (one, idle)):
        sim = vc.Simulator(bare(masses(1.0), springs=springs), 0.01)
        sim.reset(None, [0.1, 0.5, 0.0, 0.0, 1.0, 0.3])
        runs.append(sim.run(1.0).q)
    np.testing.assert_allclose(runs[1], runs[0], atol=1e-9)  # solver's tolerance, 100 steps
    np.testing.assert_array_equal(runs[2], runs[0])  # both ends on one body: no row at all


@pytest.mark.parametrize("damping", [1e2, 1e4, 1e6])
def test_a_stiff_spring_with_damper_settles(damping):
    sim = vc.Simulator(slider(spring(WORLD, 0, 1e6, 1.0, damping)), 0.01, gravity=NO_GRAVITY)
    sim.reset([1.001])
    run = sim.run(10.0)
    # midpoint: 25 of h^2 k/4 and h c/2 of 0.5 to 5000, in the last ringing falls by 4e-4 a step
    assert (np.diff(run.energy) <= 1e-12).all()
    assert run.energy[-1] < 0.7 * run.energy[0]
    assert (run.ledger.damping <= 0.0).all()


# ------------------------------------------------------------------------------ accuracy
@pytest.mark.parametrize("damping", [0.0, 0.7])
@pytest.mark.parametrize("rest", [0.0, 0.4])
def test_a_pendulum_on_a_spring_is_of_second_order(rest, damping):
    part = spring(WORLD, 0, 30.0, rest, damping, p_1=(0.1, 0.2, 0.9), p_2=(0.05, 0.1, -0.02))
    robot = bare(robot_of((), free=True, seed=3), springs=(part,))
    q, v = random_state(robot, np.random.default_rng(5), 0.5)
    orders = observed_orders(robot, q, v, np.zeros(0), 0.4, (20, 40, 80))
    assert orders == pytest.approx((2.0, 2.0), abs=0.1)


def test_two_bodies_on_a_spring_are_of_second_order():
    part = spring(0, 2, 40.0, 0.2, 0.5, p_1=(0.1, 0.0, 0.2), p_2=(0.0, 0.1, 0.3))
    robot = bare(robot_of(("revolute", "spherical"), free=True, seed=2), springs=(part,))
    q, v = random_state(robot, np.random.default_rng(3), 0.5)
    orders = observed_orders(robot, q, v, np.zeros(robot.nu), 0.3, (20, 40, 80))
    assert orders == pytest.approx((2.0, 2.0), abs=0.1)


def test_energy_of_the_interval_is_the_derivative_of_the_discrete_action():
    stepper = make_stepper(slider(spring(WORLD, 0, 50.0, 0.7)), 0.01, np.zeros(3), SolverOptions())
    stepper.reset(np.array([1.0]), np.array([0.5]))
    h, q1 = 0.02, np.empty(1)
    stepper.step(None, None, h)
    stepper.get_q(q1)
    mean = (1.0 + q1[0]) / 2.0 - 0.7
    nodes = 12.5 * (0.3**2 + (q1[0] - 0.7) ** 2)
    expected = 0.5 * ((q1[0] - 1.0) / h) ** 2 + 25.0 * mean**2 - nodes
    assert stepper.interval_energy() == pytest.approx(expected, rel=1e-12)


def test_acceleration_at_a_node_has_the_springs_of_the_node():
    part = spring(WORLD, 0, 1e5, 0.7)
    stepper = make_stepper(slider(part), 0.01, np.zeros(3), SolverOptions())
    stepper.reset(np.array([0.8]), np.array([0.5]))
    assert stepper.free_acceleration(np.array([0.5]), None, None) == pytest.approx(-1e4)


def test_ledger_with_stiff_springs_of_all_kinds():
    parts = (
        spring(0, 2, 1e5, 0.2, 20.0, p_1=(0.1, 0.0, 0.2), p_2=(0.0, 0.1, 0.3)),
        spring(WORLD, 1, 2e3, 0.0, 0.3, p_1=(0.3, 0.0, 0.2)),
        spring(1, 2, 0.0, 0.0, 3.0, p_1=(0.3, 0.0, 0.2)),
    )
    robot = bare(robot_of(("revolute", "spherical"), free=True, seed=2), springs=parts)
    q, _ = random_state(robot, np.random.default_rng(3), 0.0)
    sim = vc.Simulator(robot, 0.002)
    sim.reset(q)
    run = sim.run(0.5)
    # tolerances of 1e-10 N s times speeds of some 10 m/s
    assert np.abs(run.ledger.defect).max() < 1e-8
    assert run.ledger.damping.sum() < -1.0


def test_a_spring_on_a_wheel_keeps_its_energy():
    """A crank that turns by 1.2 rad per step winds a spring back and forth."""
    model = pin.Model()
    model.name = "crank"
    j = model.addJoint(0, pin.JointModelRUBX(), pin.SE3.Identity(), "wheel")
    model.appendBodyToJoint(j, pin.Inertia(1.0, np.zeros(3), 0.01 * np.eye(3)), pin.SE3.Identity())
    part = spring(WORLD, 0, 100.0, 0.3, p_1=(0.0, 0.4, 0.0), p_2=(0.0, 0.05, 0.0))
    robot = bare(vc.from_pinocchio(model), springs=(part,))
    assert len(robot.wheels) == 1
    sim = vc.Simulator(robot, 0.01, gravity=NO_GRAVITY)
    sim.reset(None, [120.0])
    run = sim.run(100.0)
    # 72 J; the spring's 0.5 J are seen four or five times in a turn
    assert run.energy == pytest.approx(run.energy[0], rel=0.02)
    assert np.abs(run.ledger.defect).max() < 1e-9


# ------------------------------------------------------------------------------ contact
LEG = """<robot name="leg"><link name="world"/>{links}
<joint name="rail" type="prismatic"><parent link="world"/><child link="top"/><axis xyz="0 0 1"/>
<limit lower="-10" upper="10" effort="100" velocity="100"/></joint>
<joint name="slide" type="prismatic"><parent link="top"/><child link="foot"/>
<origin xyz="0 0 -0.3"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="100" velocity="100"/></joint>
<vi_contact><base type="fixed"/>
<spring name="s" stiffness="{k}" rest_length="0.3" damping="0">
<link1 link="top"/><link2 link="foot"/></spring>
<contact name="foot" link="foot" xyz="0 0 0" radius="0"/></vi_contact></robot>"""
LINK = """<link name="{name}"><inertial><mass value="{m}"/>
<inertia ixx="{m}" ixy="0" ixz="0" iyy="{m}" iyz="0" izz="{m}"/></inertial></link>"""


def leg(tmp_path, foot, stiffness):
    """A weight of 1 kg above a foot on a spring, on a vertical slide."""
    links = LINK.format(name="top", m=1.0) + LINK.format(name="foot", m=foot)
    return vc.load_robot(write(tmp_path, LEG.format(links=links, k=stiffness)))


@pytest.mark.parametrize("foot", [0.01, 0.1, 1.0])
def test_a_stiff_leg_that_lands_gains_no_energy(tmp_path, foot):
    robot = leg(tmp_path, foot, 1e6)  # h^2 k/m up to 1e4
    sim = vc.Simulator(robot, 0.01, joint_limits=False)
    sim.reset([0.4, 0.0])
    run = sim.run(10.0)
    assert run.energy.max() < run.energy[0] * (1.0 + 1e-9)
    # and comes to rest on its foot: under its weight by m g / k
    assert np.abs(run.v[-1]).max() < 1e-9
    assert run.q[-1, 0] == pytest.approx(0.3 - 9.81 / 1e6, abs=1e-9)
    assert run.contacts["foot"].force[-1, 2] == pytest.approx((1.0 + foot) * 9.81, rel=1e-6)
    assert np.abs(run.ledger.defect).max() < 1e-9
    assert run.parts.max() == 1


def test_soft_springs_of_a_leg_are_the_same_with_and_without_ground(tmp_path):
    """What the step resolves is left to the midpoint, contacts or not: bit for bit."""
    robot = leg(tmp_path, 1.0, 1000.0)
    runs = []
    for ground in (None, vc.Ground(height=-100.0)):
        sim = vc.Simulator(robot, 0.01, ground=ground, joint_limits=False)
        sim.reset([0.4, 0.1])
        runs.append(sim.run(0.5).q)
    np.testing.assert_array_equal(runs[0], runs[1])


def test_both_solvers_land_a_stiff_leg_alike(tmp_path):
    robot = leg(tmp_path, 0.1, 1e5)
    runs = []
    for solver in ("newton", "ipopt"):
        sim = vc.Simulator(robot, 0.01, solver=solver, joint_limits=False)
        sim.reset([0.33, 0.0])
        runs.append(sim.run(0.3))
    newton, ipopt = runs
    assert newton.contacts["foot"].force.max() > 10.0
    # IPOPT's products of impulse and gap leave 1e-8 m
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-7, rtol=0.0)


def test_snapshots_of_a_stiff_leg_are_bitwise(tmp_path):
    sim = vc.Simulator(leg(tmp_path, 0.1, 1e6), 0.01, joint_limits=False)
    sim.reset([0.33, 0.0])
    sim.run(0.1)
    before = sim.snapshot()
    first = sim.run(0.2)
    sim.restore(before)
    again = sim.run(0.2)
    np.testing.assert_array_equal(again.q, first.q)
    np.testing.assert_array_equal(again.v, first.v)
