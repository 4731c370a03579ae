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
