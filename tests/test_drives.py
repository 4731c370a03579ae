"""Motors and limits: the torque of a step lies on the analytic envelope at the step's speed."""

import numpy as np
import pytest
from motion import chain_urdf
from urdf_text import extension, joint, link, robot, write

import vi_contact as vc

TURNS = '<limit lower="-1e6" upper="1e6" effort="1e6" velocity="1e6"/>'
HIP = {"kt": 1.73 / 7.0, "R": 0.3, "V": 48.0, "i_max": 30.0, "g": 7.0}
MOTOR = extension(
    '<motor joint="hinge" torque_constant="0.24714285714285714" resistance="0.3" voltage="48" '
    'current_limit="30" gear_ratio="7" rotor_inertia="0.001"/>'
)


@pytest.fixture(scope="module")
def rotor(tmp_path_factory):
    """One heavy wheel on the hip motor."""
    text = robot(
        link("world", ""), link("wheel"), joint("hinge", "world", "wheel", limit=TURNS), MOTOR
    )
    return vc.load_robot(write(tmp_path_factory.mktemp("rotor"), text), contacts="none")


def envelope(speed):
    """Lowest and highest joint torque of the hip motor at a joint speed."""
    kt, R, V, i_max, g = HIP.values()
    w = g * speed
    lower, upper = g * (-V * kt - kt**2 * w) / R, g * (V * kt - kt**2 * w) / R
    peak = g * kt * i_max
    return np.clip([lower, upper], -peak, peak)


@pytest.mark.parametrize("command", [1e3, -1e3], ids=["push", "pull"])
def test_hip_motor_lies_on_its_envelope_in_all_four_quadrants(rotor, command):
    for start in np.linspace(-40.0, 40.0, 41):
        sim = vc.Simulator(rotor, 0.001, gravity=(0.0, 0.0, 0.0))
        sim.reset(v=[start])
        trajectory = sim.run(0.01, lambda _: np.array([command]))
        speeds = np.diff(trajectory.q[:, 0]) / 0.001  # mean speed of each step
        wanted = [envelope(speed)[int(command > 0.0)] for speed in speeds]
        # torques of up to 52 N m; the speed is a difference of angles: 1e-16 / 1e-3 rad/s
        np.testing.assert_allclose(trajectory.tau[:, 0], wanted, atol=1e-9, rtol=0.0)


def test_all_quadrants_are_asymmetric(rotor):
    # braking torque is not limited by the voltage as driving torque is
    assert envelope(25.0)[1] < 30.0
    assert envelope(25.0)[0] == pytest.approx(-51.9)


def test_torque_within_the_envelope_acts_as_asked(rotor):
    sim = vc.Simulator(rotor, 0.001, gravity=(0.0, 0.0, 0.0))
    sim.step(np.array([10.0]))
    assert sim.info.saturated == ()
    inertia = 0.1 + 49.0 * 0.001  # wheel and rotor through the gear
    assert sim.state.v[0] == pytest.approx(0.001 * 10.0 / inertia, rel=1e-12)
    sim.step(np.array([100.0]))
    assert sim.info.saturated == ("hinge",)
    assert sim.run(0.001, lambda _: np.array([100.0])).tau[0, 0] == pytest.approx(51.9)


def test_motor_runs_up_to_its_no_load_speed_and_no_further(rotor):
    sim = vc.Simulator(rotor, 0.001, gravity=(0.0, 0.0, 0.0))
    trajectory = sim.run(1.0, lambda _: np.array([1e3]))
    no_load = HIP["V"] / HIP["kt"] / HIP["g"]
    speeds = np.diff(trajectory.q[:, 0]) / 0.001
    assert speeds[-1] == pytest.approx(no_load, rel=1e-9)
    assert speeds.max() < no_load * (1.0 + 1e-9)
    # at the nodes the scheme's velocity is (h w)^2 / 6 = 1.3e-4 lower
    assert trajectory.v[-1, 0] == pytest.approx(no_load, rel=2e-4)


def limited(tmp_path, effort, velocity, damping=0.0):
    text = robot(
        link("world", ""),
        link("wheel"),
        joint(
            "hinge",
            "world",
            "wheel",
            limit=f'<limit lower="-1e6" upper="1e6" effort="{effort}" velocity="{velocity}"/>',
            body=f'<dynamics damping="{damping}"/>',
        ),
    )
    return vc.load_robot(write(tmp_path, text), contacts="none")


def test_effort_limit(tmp_path):
    sim = vc.Simulator(limited(tmp_path, 2.0, 1e6), 0.01, gravity=(0.0, 0.0, 0.0))
    assert sim.run(0.02, lambda _: np.array([5.0])).tau == pytest.approx(2.0)
    assert sim.info.saturated == ("hinge",)


def test_velocity_limit_takes_the_driving_torque_away_but_not_the_braking(tmp_path):
    sim = vc.Simulator(limited(tmp_path, 50.0, 3.0), 0.01, gravity=(0.0, 0.0, 0.0))
    speeds = sim.run(2.0, lambda _: np.array([5.0])).v[:, 0]
    assert speeds.max() < 3.0 + 1e-9
    assert speeds[-1] == pytest.approx(3.0, rel=1e-3)
    braking = sim.run(0.01, lambda _: np.array([-5.0]))
    assert braking.tau[0, 0] == pytest.approx(-5.0)


def test_joint_damping_decays_exponentially_and_may_be_stiff(tmp_path):
    robot_ = limited(tmp_path, 50.0, 1e6, damping=0.5)
    sim = vc.Simulator(robot_, 0.001, gravity=(0.0, 0.0, 0.0))
    sim.reset(v=[2.0])
    trajectory = sim.run(0.5)
    expected = 2.0 * np.exp(-0.5 / 0.1 * trajectory.time)
    np.testing.assert_allclose(trajectory.v[:, 0], expected, rtol=2e-5)  # O(h^2) = 25e-6
    stiff = vc.Simulator(limited(tmp_path, 50.0, 1e6, damping=1e4), 0.01)
    stiff.reset(v=[2.0])
    assert np.abs(stiff.run(1.0).q).max() < 2.0 * 0.01  # stays bounded: damping is implicit


def test_pendulum_period(tmp_path):
    # a factor 1/2 left out of the rotation columns makes it 12.6 % too short
    pendulum = vc.load_robot(chain_urdf(tmp_path, 1))
    sim = vc.Simulator(pendulum, 0.001)
    small = 0.01
    sim.reset([np.cos(small), np.sin(small)])
    trajectory = sim.run(5.0)
    crossings = np.flatnonzero(np.diff(np.sign(trajectory.q[:, 1])))
    period = 2.0 * np.diff(trajectory.time[crossings]).mean()
    inertia = 0.0034 + 0.01
    expected = 2.0 * np.pi * np.sqrt(inertia / (9.81 * 0.1))
    assert period == pytest.approx(expected, rel=1e-3)  # crossings are known to 1 ms of 0.7 s


# ---------------------------------------------------------------- servos
def test_servo_solves_the_trapezoidal_oscillator(tmp_path):
    """A mass on a slide, against the closed form of the rule: m (v1 - v) = h f at mid step."""
    text = robot(
        link("world", ""), link("cart"), joint("slide", "world", "cart", "prismatic", limit=TURNS)
    )
    cart = vc.load_robot(write(tmp_path, text), contacts="none")
    h, kp, kd, target = 0.01, 30.0, 2.0, 0.3
    tight = vc.SolverOptions(momentum_tolerance=1e-13, velocity_tolerance=0.0)
    sim = vc.Simulator(cart, h, gravity=(0.0, 0.0, 0.0), options=tight)
    sim.reset(v=[0.5])
    q, v = 0.0, 0.5
    for _ in range(50):
        state = sim.step(vc.JointCommand(tau=[0.1], q=[target], v=[0.2], kp=kp, kd=kd))
        # q1 = q + h mid and v1 = 2 mid - v with m = 1 kg
        force = 0.1 + kp * (target - q) + 0.2 * kd
        mid = (v + 0.5 * h * force) / (1.0 + 0.5 * h * (kd + 0.5 * h * kp))
        q, v = q + h * mid, 2.0 * mid - v
        # speeds are differences of positions: round-off of 1e-16 m / h, 50 times
        assert state.q[0] == pytest.approx(q, abs=1e-11)
        assert state.v[0] == pytest.approx(v, abs=1e-9)


def test_servo_with_stiff_gains_holds_a_robot_in_its_limits():
    """Gains at which an explicit controller blows up: 1e5 N m/rad on legs of 0.02 kg m2."""
    robot = vc.load_robot("fly_hopper_rail")
    sim = vc.Simulator(robot, 0.01)
    reference = sim.state.q[robot.actuated_dofs]
    trajectory = sim.run(1.0, vc.JointCommand(q=reference, kp=1e5, kd=100.0))
    assert np.isfinite(trajectory.q).all()
    # statics: torques of some N m against 1e5 N m/rad
    assert np.abs(trajectory.q[-1, robot.actuated_dofs] - reference).max() < 1e-3
    assert np.abs(trajectory.v[-1]).max() < 1e-3


def test_servo_is_cut_by_the_motor(rotor):
    sim = vc.Simulator(rotor, 0.001, gravity=(0.0, 0.0, 0.0))
    sim.reset(v=[25.0])
    trajectory = sim.run(0.01, vc.JointCommand(q=[100.0], kp=1e4))
    speeds = np.diff(trajectory.q[:, 0]) / 0.001
    wanted = [envelope(speed)[1] for speed in speeds]
    np.testing.assert_allclose(trajectory.tau[:, 0], wanted, atol=1e-9, rtol=0.0)
    assert sim.info.saturated == ("hinge",)


def test_constant_command_equals_a_controller_that_repeats_it(rotor):
    command = vc.JointCommand(q=[0.5], kp=20.0, kd=1.0)
    first = vc.Simulator(rotor, 0.01).run(0.5, command)
    second = vc.Simulator(rotor, 0.01).run(0.5, lambda _: command)
    np.testing.assert_array_equal(first.q, second.q)
    # the servo does not outlive its command
    sim = vc.Simulator(rotor, 0.01)
    sim.run(0.1, command)
    sim.step()
    assert sim.info.saturated == ()
    applied = sim.run(0.01).tau
    np.testing.assert_array_equal(applied, 0.0)


def test_continuous_joints_turn_the_shorter_way(tmp_path):
    text = robot(
        link("world", ""), link("wheel"), joint("hinge", "world", "wheel", kind="continuous")
    )
    wheel = vc.load_robot(write(tmp_path, text), contacts="none")
    sim = vc.Simulator(wheel, 0.01, gravity=(0.0, 0.0, 0.0))
    sim.reset(q=[np.cos(3.0), np.sin(3.0)])
    sim.step(vc.JointCommand(q=[-3.0], kp=1.0))
    assert sim.state.v[0] > 0.0


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (vc.JointCommand(kp=1.0), "reference"),
        (vc.JointCommand(q=[0.0], kp=-1.0), "negative"),
        (vc.JointCommand(q=[0.0], kp=1.0, kd=-1.0), "negative"),
        (vc.JointCommand(q=[0.0, 1.0], kp=1.0), "q"),
        (vc.JointCommand(q=[np.nan], kp=1.0), "q"),
        (vc.JointCommand(tau=[1.0, 2.0]), "tau"),
    ],
)
def test_bad_commands_are_refused_and_the_state_stands(rotor, command, word):
    sim = vc.Simulator(rotor, 0.01)
    before = sim.state
    with pytest.raises(vc.errors.ArrayError, match=word):
        sim.step(command)
    assert sim.state is before
