"""Motors and limits: the torque of a step lies on the analytic envelope at the step's speed."""

import numpy as np
import pytest
from motion import chain_urdf
from urdf_text import extension, joint, link, robot, write

import vi_contact as vc
from vi_contact.mechanics.drives import drive_torque
from vi_contact.viewer.report import motor_limits

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


def geared(tmp_path, velocity="1e6", effort="1e6", motor=MOTOR):
    turns = f'<limit lower="-1e6" upper="1e6" effort="{effort}" velocity="{velocity}"/>'
    text = robot(link("world", ""), link("wheel"), joint("hinge", "world", "wheel", limit=turns))
    text = text.replace("</robot>", f"{motor}</robot>")
    return vc.load_robot(write(tmp_path, text), contacts="none")


@pytest.mark.parametrize("effort", [1e6, 20.0])
@pytest.mark.parametrize("command", [1e3, -1e3, 12.0], ids=["push", "pull", "gently"])
def test_velocity_and_effort_limits_act_beside_the_motor(tmp_path, effort, command):
    """The motor's line, no more than the effort, faded where it drives near the limit of 10."""
    both = geared(tmp_path, velocity=10.0, effort=effort)
    wanted, given, h = [], [], 0.001
    for start in np.linspace(-35.0, 35.0, 57):
        sim = vc.Simulator(both, h, gravity=(0.0, 0.0, 0.0))
        sim.reset(v=[start])
        trajectory = sim.run(5 * h, lambda _: np.array([command]))
        speeds = np.diff(trajectory.q[:, 0]) / h
        cut = np.clip(command, -effort, effort)
        torque = np.clip(cut, *[np.clip(end, -effort, effort) for end in envelope(speeds)])
        left = np.clip((10.0 - np.sign(torque) * speeds) / 1.0, 0.0, 1.0)
        wanted.extend(torque * left)
        given.extend(trajectory.tau[:, 0])
        twin = [float(drive_torque(both.joints[0], 0, both.motors[0], command, w)) for w in speeds]
        np.testing.assert_allclose(trajectory.tau[:, 0], twin, atol=1e-9, rtol=0.0)
        low, high = motor_limits(trajectory, both, 0)  # the dashed lines of the page
        assert (low - 1e-9 <= trajectory.tau[:, 0]).all()
        assert (trajectory.tau[:, 0] <= high + 1e-9).all()
    # speeds are differences of angles: 1e-16 / 1e-3 rad/s, times 50 N m per 1 rad/s of the band
    np.testing.assert_allclose(given, wanted, atol=1e-9, rtol=0.0)
    top = vc.Simulator(both, h, gravity=(0.0, 0.0, 0.0)).run(1.0, lambda _: np.array([1e3]))
    # not the motor's 27.7 rad/s; the fade ends exponentially, in 0.15 kg m2 / 20 N m s
    assert np.diff(top.q[-2:, 0]) / h == pytest.approx(10.0, rel=1e-9)


@pytest.mark.parametrize("velocity", ["27.745664739884393", "27.7", "40"])
def test_a_velocity_limit_at_the_no_load_speed_adds_nothing(rotor, tmp_path, velocity):
    """It is where the motor's line ends, as in the bundled robots: no second fade, bit for bit."""
    runs = [
        vc.Simulator(r, 0.01, gravity=(0.0, 0.0, 0.0)).run(1.0, lambda _: np.array([1e3])).q
        for r in (rotor, geared(tmp_path, velocity))
    ]
    np.testing.assert_array_equal(*runs)


def test_ipopt_knows_both_limits_of_a_motor(tmp_path):
    both = geared(tmp_path, velocity=10.0, effort=20.0)
    ends = []
    for solver in ("newton", "ipopt"):
        sim = vc.Simulator(both, 0.01, gravity=(0.0, 0.0, 0.0), solver=solver, ground=None)
        sim.reset(v=[8.0])
        ends.append(sim.run(0.1, vc.JointCommand(tau=100.0)).tau)
    assert ends[0][0, 0] == pytest.approx(20.0)
    assert ends[0][-1, 0] < 15.0
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-6)  # IPOPT's tolerance is 1e-9 of momenta


def test_report_says_what_limits_a_motor(tmp_path):
    def row(loaded):
        table = str(loaded.report).split("Motors")[1].split("\n")
        return table[3].split()[-6:], [f.message for f in loaded.report.checks]

    numbers, checks = row(geared(tmp_path))
    assert numbers[1:] == ["27.75", "51.9", "current", "27.75", "voltage"]
    assert not any("<limit> holds" in message for message in checks)
    strong = geared(tmp_path, 10.0, 51.9, MOTOR.replace('gear_ratio="7"', 'gear_ratio="15"'))
    numbers, checks = row(strong)
    assert "111.2" not in numbers and "51.9" in numbers  # what acts
    [message] = [message for message in checks if "<limit> holds" in message]
    for word in ("effort to 51.9", "could give 111.2", "velocity to 10", "could turn at 12.95"):
        assert word in message
    sim = vc.Simulator(strong, 0.001, gravity=(0.0, 0.0, 0.0))
    assert sim.run(0.001, lambda _: np.array([1e3])).tau[0, 0] == pytest.approx(51.9)
    weak = geared(tmp_path, motor=MOTOR.replace('voltage="48"', 'voltage="5"'))
    numbers, _ = row(weak)
    assert numbers[-5:-2] == ["2.89", "28.83", "voltage"]  # 7 kt V / R, below the current's


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
