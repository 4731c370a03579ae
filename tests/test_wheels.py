"""Wheels turn as fast as they like: angle, momentum, energy and gyroscopic torque."""

import logging

import numpy as np
import pinocchio as pin
import pytest
from motion import GRAVITY, Oracle, body_jacobian, observed_orders
from test_twin import mass_matrix, random_step, twin_arguments

import vi_contact as vc
from vi_contact.mechanics.discrete_lagrangian import step_balance, step_jacobian
from vi_contact.solvers.newton import SolverOptions, make_stepper

AXIAL = 2e-3  # kg m2
DISC = np.diag([AXIAL, 0.5 * AXIAL, 0.5 * AXIAL])
BASES = {
    "fixed": None,
    "free": pin.JointModelFreeFlyer,
    "ball": pin.JointModelSpherical,
    "gimbal": pin.JointModelRZ,
}
SPEEDS = (0.0, 50.0, 200.0, 453.0, 2000.0)


def wheeled(base, inertia=DISC, lever=(0.01, 0.0, 0.0), joint=pin.JointModelRUBX, weight=2.0):
    """A wheel about x on a base of 2 kg, or on the world."""
    model, carrier = pin.Model(), 0
    model.name = f"wheel_on_{base}"
    if BASES[base] is not None:
        carrier = model.addJoint(0, BASES[base](), pin.SE3.Identity(), "base")
        body = pin.Inertia(weight, np.array([0.0, 0.0, 0.1]), np.diag([0.03, 0.02, 0.025]))
        model.appendBodyToJoint(carrier, body, pin.SE3.Identity())
    place = pin.SE3(pin.utils.rotate("z", 0.3), np.array([0.05, 0.02, 0.2]))
    wheel = model.addJoint(carrier, joint(), place, "wheel")
    model.appendBodyToJoint(wheel, pin.Inertia(0.5, np.array(lever), inertia), pin.SE3.Identity())
    if joint is not pin.JointModelRUBX:
        model.lowerPositionLimit[-1], model.upperPositionLimit[-1] = -np.inf, np.inf
    robot = vc.from_pinocchio(model)
    assert [wheel.joint for wheel in robot.wheels] == [len(robot.joints) - 1]
    return robot


def lopsided(product=0.05):
    """A disc with a valve: products of inertia, and unequal across its axis."""
    return DISC + AXIAL * np.array([[0, product, 0.02], [product, 0.2, 0.03], [0.02, 0.03, -0.2]])


# ------------------------------------------------------------------------------ which they are
def test_only_balanced_leaves_without_limits_are_wheels():
    assert len(vc.load_robot("fly_hopper_wheels").wheels) == 3
    assert vc.load_robot("fly_hopper").wheels == ()
    model = pin.Model()
    place = pin.SE3.Identity()
    carrier = model.addJoint(0, pin.JointModelRUBX(), place, "carries another")
    model.appendBodyToJoint(carrier, pin.Inertia(1.0, np.zeros(3), DISC), place)
    bodies = {
        "wheel": (pin.JointModelRUBX, np.zeros(3), DISC),
        "propeller": (pin.JointModelRUBX, np.zeros(3), np.diag([1.0, 0.1, 0.95]) * AXIAL),
        "pendulum": (pin.JointModelRUBX, np.array([0.0, 0.02, 0.0]), DISC),
        "tilted": (pin.JointModelRUBX, np.zeros(3), lopsided(0.3)),
        "hinge": (pin.JointModelRX, np.zeros(3), DISC),
        "slide": (pin.JointModelPX, np.zeros(3), DISC),
    }
    for name, (joint, com, inertia) in bodies.items():
        leaf = model.addJoint(carrier, joint(), place, name)
        model.appendBodyToJoint(leaf, pin.Inertia(1.0, com, inertia), place)
        if name == "hinge":
            model.lowerPositionLimit[-1], model.upperPositionLimit[-1] = -6.3, 6.3
    robot = vc.from_pinocchio(model)
    assert [robot.joint_names[wheel.joint] for wheel in robot.wheels] == ["wheel", "propeller"]


# ------------------------------------------------------------------------------ the equations
@pytest.mark.parametrize("turn", [0.02, 2.5, 21.0])
@pytest.mark.parametrize("inertia", [DISC, lopsided()], ids=["disc", "lopsided"])
@pytest.mark.parametrize("base", ["free", "ball", "gimbal"])
def test_compiled_step_is_the_twin(base, inertia, turn):
    h = 0.01
    robot = wheeled(base, inertia, (0.01, 0.003, 0.002), pin.JointModelRX)
    rng, q0, v0, q1, tau, wrenches, _, multipliers = random_step(robot, 3)
    q1[-1] = q0[-1] + turn
    stepper = make_stepper(robot, h, GRAVITY, SolverOptions())
    stepper.reset(q0, v0)
    residual, rows = np.empty(robot.nv), np.empty(0)
    stepper.residual_at(q1, np.zeros(0), tau, wrenches, residual, rows)
    about = np.zeros(len(robot.joints))
    about[-1] = turn + 0.4
    arguments = twin_arguments(robot, q0, q1, tau, wrenches, multipliers)
    left = step_balance(robot, h, GRAVITY, about)(*arguments)[0].full().ravel()
    P0, P1 = body_jacobian(robot, q0), body_jacobian(robot, q1)
    scale = 1.0 + turn  # momenta grow with the turn
    expected = P0.T @ left - mass_matrix(robot, q0) @ v0
    np.testing.assert_allclose(residual, expected, rtol=1e-9, atol=1e-11 * scale)
    right, dq = rng.normal(size=robot.nv), np.empty(robot.nv)
    assert stepper.newton_direction(right, dq)
    matrix = P0.T @ step_jacobian(robot, h, GRAVITY, about)(*arguments).full() @ P1
    np.testing.assert_allclose(matrix @ dq, -right, rtol=1e-8, atol=1e-9 * scale)


@pytest.mark.parametrize("joint", [pin.JointModelRX, pin.JointModelRUBX])
def test_ipopt_takes_the_same_steps(joint):
    robot = wheeled("free", lopsided(), (0.01, 0.002, 0.0), joint)
    sims = [vc.Simulator(robot, 0.01, ground=None, solver=name) for name in ("newton", "ipopt")]
    v = np.array([0.1, 0.0, 0.2, 0.3, -0.4, 0.2, 437.0])
    tau = np.array([0.3])
    for sim in sims:
        sim.reset(None, v)
    for _ in range(4):
        newton, ipopt = (sim.step(tau) for sim in sims)
        # IPOPT's tolerance of 1e-9 of the motion of a step
        np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-8, rtol=0.0)
        np.testing.assert_allclose(ipopt.v, newton.v, atol=1e-6, rtol=0.0)


def test_ipopt_refuses_to_roll_a_wheel(tmp_path):
    file = tmp_path / "ball.urdf"
    file.write_text(rolling_urdf())
    with pytest.raises(vc.ViContactError, match="does not roll wheels"):
        vc.Simulator(vc.load_robot(file), solver="ipopt")


# ------------------------------------------------------------------------------ against physics
@pytest.mark.parametrize("time_step", [0.01, 0.001])
@pytest.mark.parametrize("speed", SPEEDS)
def test_on_a_fixed_base_angle_and_speed_are_exact(speed, time_step):
    robot = wheeled("fixed", joint=pin.JointModelRX)
    sim = vc.Simulator(robot, time_step, ground=None)
    sim.reset(None, [speed])
    torque = 0.5  # N m; 250 rad/s2
    trajectory = sim.run(1.0, lambda _: [torque])
    time, rate = trajectory.time, torque / AXIAL
    np.testing.assert_allclose(trajectory.v[:, 0], speed + rate * time, rtol=1e-10)
    angle = speed * time + 0.5 * rate * time**2
    np.testing.assert_allclose(trajectory.q[:, 0], angle, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(trajectory.kinetic, 0.5 * AXIAL * trajectory.v[:, 0] ** 2, rtol=1e-9)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("base", ["free", "ball"])
def test_second_order_on_a_moving_base(base, speed):
    """Against pinocchio's dynamics; at 2000 rad/s the base nutates at 160 rad/s."""
    robot = wheeled(base)
    v = np.zeros(robot.nv)
    v[-4:] = [1.5, 2.5, -2.0, speed]
    steps = (40, 80, 160) if speed < 1000.0 else (160, 320, 640)
    for orders in observed_orders(robot, robot.neutral(), v, np.full(robot.nu, 0.01), 0.1, steps):
        assert orders == pytest.approx(2.0, abs=0.1), orders


@pytest.mark.parametrize("inertia", [DISC, lopsided()], ids=["disc", "lopsided"])
@pytest.mark.parametrize("speed", [50.0, 453.0, 2000.0])
def test_momentum_of_the_whole_is_exact_while_wheels_change_speed(speed, inertia):
    robot = wheeled("free", inertia, (0.01, 0.002, 0.0))
    sim = vc.Simulator(robot, 0.01, ground=None, gravity=(0, 0, 0))
    sim.reset(None, [0.0, 0.0, 0.0, 0.3, 0.5, -0.4, speed])
    rng = np.random.default_rng(0)
    trajectory = sim.run(5.0, lambda _: rng.normal(size=1))
    size = np.abs(trajectory.angular_momentum[0]).max()
    drift = np.abs(trajectory.angular_momentum - trajectory.angular_momentum[0]).max()
    assert drift < 1e-12 * max(1.0, size)  # kg m2/s, of up to 4; over 500 steps
    assert np.abs(trajectory.linear_momentum - trajectory.linear_momentum[0]).max() < 1e-12
    assert np.abs(trajectory.ledger.defect).max() < 1e-9


@pytest.mark.parametrize("speed", [453.0, 2000.0])
def test_energy_stays_on_a_base_that_falls_over(speed):
    """It oscillates with h^2 about where it was; the base reaches 12 rad/s."""
    robot = wheeled("ball")
    ranges = []
    for time_step in (0.01, 0.001):
        sim = vc.Simulator(robot, time_step, ground=None)
        sim.reset(None, [0.1, 0.2, 0.3, speed])
        energy, second = sim.run(5.0).energy, round(1.0 / time_step)
        ranges.append(np.ptp(energy))
        drift = abs(energy[-second:].mean() - energy[:second].mean())
        assert drift < 0.2 * np.ptp(energy)
    assert ranges[0] < 1.1e-4 * energy[0]
    assert ranges[0] / ranges[1] == pytest.approx(100.0, rel=0.05)


def gyroscope(arm=0.2):
    """A disc of 0.5 kg at the end of a light arm along x that turns about a fixed point."""
    model, place = pin.Model(), pin.SE3.Identity()
    pivot = model.addJoint(0, pin.JointModelSpherical(), place, "pivot")
    model.appendBodyToJoint(pivot, pin.Inertia(0.0, np.zeros(3), np.zeros((3, 3))), place)
    at = pin.SE3(np.eye(3), np.array([arm, 0.0, 0.0]))
    wheel = model.addJoint(pivot, pin.JointModelRUBX(), at, "wheel")
    model.appendBodyToJoint(wheel, pin.Inertia(0.5, np.zeros(3), DISC), place)
    return vc.from_pinocchio(model), 0.5 * 9.81 * arm


@pytest.mark.parametrize("time_step", [0.01, 0.001])
@pytest.mark.parametrize("speed", [100.0, 453.0, 2000.0])
def test_gyroscope_precesses_level(speed, time_step):
    """Level steady precession: A w Omega = m g l, whatever the other inertias are."""
    robot, torque = gyroscope()
    rate = torque / (AXIAL * speed)
    sim = vc.Simulator(robot, time_step, ground=None)
    sim.reset(None, [0.0, 0.0, rate, speed])
    trajectory = sim.run(1.0)
    axis = np.array([pin.Quaternion(q[:4]).matrix()[:, 0] for q in trajectory.q])
    error = (rate * time_step) ** 2  # of the direction per radian of precession
    assert np.abs(axis[:, 2]).max() < error
    turned = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))[-1]
    assert turned == pytest.approx(rate, rel=error + 1e-9)


@pytest.mark.parametrize("speed", [200.0, 2000.0])
def test_control_moment_gyroscope_turns_its_platform(speed):
    """About the platform's free axis momentum stays zero: I w = A s sin(gamma)."""
    model, place = pin.Model(), pin.SE3.Identity()
    platform = model.addJoint(0, pin.JointModelRZ(), place, "platform")
    model.appendBodyToJoint(platform, pin.Inertia(5.0, np.zeros(3), 40.0 * np.eye(3)), place)
    gimbal = model.addJoint(platform, pin.JointModelRY(), place, "gimbal")
    frame = 1e-3 * np.eye(3)
    model.appendBodyToJoint(gimbal, pin.Inertia(0.2, np.zeros(3), frame), place)
    wheel = model.addJoint(gimbal, pin.JointModelRUBX(), place, "wheel")
    model.appendBodyToJoint(wheel, pin.Inertia(0.5, np.zeros(3), DISC), place)
    robot = vc.from_pinocchio(model)
    sim = vc.Simulator(robot, 0.01, ground=None)
    sim.reset(None, [0.0, 0.0, speed])
    rate = 0.8  # rad/s of the gimbal, held by a stiff servo from its own start on

    def hold(state):
        angle = rate * (state.time + 0.005)
        return vc.JointCommand(q=[0.0, angle, 0.0], v=[0.0, rate, 0.0], kp=[0.0, 500.0, 0.0],
                               kd=[0.0, 50.0, 0.0])  # fmt: skip

    trajectory = sim.run(1.0, hold)
    gamma, spin = trajectory.q[:, 1], AXIAL * (trajectory.v[:, 2])
    across = 0.5 * AXIAL * np.cos(gamma) ** 2 + AXIAL * np.sin(gamma) ** 2
    inertia = 40.0 + 1e-3 + across
    # the wheel's axis tips towards -z with gamma
    expected = spin * np.sin(gamma) / inertia
    # its spin is relative to the gimbal: the part from the platform is in `across`
    np.testing.assert_allclose(trajectory.v[:, 0], expected, rtol=1e-9, atol=1e-9)
    torque = np.gradient(inertia * trajectory.v[:, 0], trajectory.time)[5:-5]
    gyroscopic = (AXIAL * trajectory.v[:, 2] * np.cos(gamma) * trajectory.v[:, 1])[5:-5]
    # differences of platform momentum beside A s gamma'
    np.testing.assert_allclose(torque, gyroscopic, rtol=2e-2)


# ------------------------------------------------------------------------------ as users see it
def test_reaction_wheels_of_the_hopper_reach_their_speed(caplog):
    robot = vc.load_robot("fly_hopper_wheels", base="fixed").with_parts(springs=())
    sim = vc.Simulator(robot, 0.01, ground=None)
    with caplog.at_level(logging.WARNING, "vi_contact"):
        trajectory = sim.run(10.0, lambda state: [0.0, 0.0, 11.0, -11.0, 4.0])
    assert not caplog.records
    # within 1 % of the no-load speeds V / kt; 2/h is 200 rad/s
    np.testing.assert_allclose(trajectory.v[-1, -3:], [452.83, -452.83, 553.0], rtol=0.01)
    # what the motors gave is in the wheels: A dw = integral of the torque
    given = 0.01 * trajectory.tau[:, -3:].sum(axis=0)
    np.testing.assert_allclose(
        given, [0.0066096, 0.0066096, 0.000829] * trajectory.v[-1, -3:], rtol=1e-8
    )


def test_a_spinning_start_is_no_error_and_a_snapshot_repeats():
    robot = wheeled("free")
    sim = vc.Simulator(robot, 0.01, ground=None)
    sim.reset(None, [0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 1500.0])
    sim.run(0.1)
    snapshot = sim.snapshot()
    first = sim.run(0.2)
    sim.restore(snapshot)
    again = sim.run(0.2)
    assert np.array_equal(first.q, again.q)
    assert np.array_equal(first.v, again.v)


def test_an_hour_of_turns_costs_no_convergence():
    """Angles with limits keep their turns: 7e6 rad have a round-off of 1e-9 rad."""
    robot = wheeled("free", joint=pin.JointModelRX)
    q = robot.neutral()
    q[-1] = 7.2e6
    sim = vc.Simulator(robot, 0.01, ground=None)
    sim.reset(q, [0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 2000.0])
    trajectory = sim.run(1.0)
    assert trajectory.iterations.mean() < 5
    assert (trajectory.parts == 1).all()
    np.testing.assert_allclose(trajectory.v[:, -1], 2000.0, atol=1.0)


def rolling_urdf():
    return """<robot name="ball"><link name="world"/>
      <link name="cart"><inertial><mass value="1"/><inertia ixx=".01" ixy="0" ixz="0" iyy=".01"
        iyz="0" izz=".01"/></inertial></link>
      <link name="wheel"><inertial><mass value=".5"/><inertia ixx=".001" ixy="0" ixz="0"
        iyy=".002" iyz="0" izz=".001"/></inertial>
        <collision><geometry><sphere radius="0.1"/></geometry></collision></link>
      <joint name="up" type="prismatic"><parent link="world"/><child link="lift"/>
        <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="0" velocity="0"/></joint>
      <link name="lift"><inertial><mass value="1"/><inertia ixx=".01" ixy="0" ixz="0" iyy=".01"
        iyz="0" izz=".01"/></inertial></link>
      <joint name="x" type="prismatic"><parent link="lift"/><child link="cart"/>
        <axis xyz="1 0 0"/><limit lower="-1000" upper="1000" effort="0" velocity="0"/></joint>
      <joint name="axle" type="continuous"><parent link="cart"/><child link="wheel"/>
        <axis xyz="0 1 0"/></joint></robot>"""


def test_a_wheel_rolls_as_far_as_it_turns(tmp_path):
    file = tmp_path / "ball.urdf"
    file.write_text(rolling_urdf())
    robot = vc.load_robot(file)
    q = robot.on_ground(robot.neutral())
    sim = vc.Simulator(robot, 0.01)
    speed = 80.0  # rad/s, 0.8 rad per step
    sim.reset(q, [0.0, 0.1 * speed, speed])
    trajectory = sim.run(1.0)
    np.testing.assert_allclose(trajectory.q[-1, 1], 0.1 * speed, rtol=1e-9)
    np.testing.assert_allclose(trajectory.v[:, 2], speed, rtol=1e-9)
    assert not trajectory.contacts[robot.contact_names[0]].sliding.any()


def test_oracle_turns_the_wheel():
    """The reference itself: a free wheel on a fixed base keeps its speed."""
    robot = wheeled("fixed")
    _, v = Oracle(robot).motion(robot.neutral(), np.array([300.0]), np.zeros(1), 0.1)
    assert v[0] == pytest.approx(300.0)
