"""Servos and damping that are stiff beside the step: they settle without ringing."""

import numpy as np
import pinocchio as pin
import pytest
from motion import GRAVITY, JOINT_MODELS, body_jacobian, random_state, robot_of, unlimited
from urdf_text import joint, link, robot, write

import vi_contact as vc
from vi_contact.controllers import actuated_positions
from vi_contact.mechanics.rotations import attitude_jacobian
from vi_contact.mechanics.time_stepping import DRIVE, Scales, robot_block
from vi_contact.solvers.newton import SolverOptions, make_stepper

H = 0.01
FREE = '<limit lower="-9" upper="9" effort="1e9" velocity="1e9"/>'
BAR = (
    '<inertial><origin xyz="0 0 {com}"/><mass value="{mass}"/>'
    '<inertia ixx="{i}" ixy="0" ixz="0" iyy="{i}" iyz="0" izz="{i}"/></inertial>'
)
THREE = (0.5, 2.0), (0.4, 0.5), (0.2, 0.05)
STIFF = [(1e4, 1e2), (1e4, 1e4), (1e5, 1e3), (1e6, 1e2), (1e6, 1e4), (0.0, 1e2), (0.0, 1e4)]
IDS = [f"{kp:g}_{kd:g}" for kp, kd in STIFF]


def arm(tmp_path, *bars, damping=0.0):
    """Bars (length, mass) in a row, turning about y."""
    parts, parent, at = [link("world", "")], "world", 0.0
    for k, (length, mass) in enumerate(bars):
        body = BAR.format(com=-0.5 * length, mass=mass, i=mass * length**2 / 12.0)
        dynamics = f'<dynamics damping="{damping}"/>'
        place = {"limit": FREE, "body": dynamics, "origin": f"0 0 {at}"}
        parts += [link(f"bar_{k}", body), joint(f"hinge_{k}", parent, f"bar_{k}", **place)]
        parent, at = f"bar_{k}", -length
    return vc.load_robot(write(tmp_path, robot(*parts)), base="fixed", contacts="none")


def run(robot, command, q=None, v=None, steps=40, h=H, **options):
    sim = vc.Simulator(robot, h, **options)
    sim.reset(q, v)
    return sim.run(steps * h, command)


def ringing(values, floor):
    """How often three one after another, all larger than the floor, alternate in sign."""
    flips = (values[1:] * values[:-1] < 0.0) & (
        np.minimum(*np.abs([values[1:], values[:-1]])) > floor
    )
    return int((flips[1:] & flips[:-1]).sum())


@pytest.mark.parametrize(("kp", "kd"), STIFF, ids=IDS)
@pytest.mark.parametrize("start", [(0.0, 3.0), (0.1, 0.0), (0.1, -3.0)], ids=str)
def test_a_light_link_settles_without_ringing(tmp_path, kp, kd, start):
    """0.02 kg m2, at which the midpoint rule alternates for hundreds of steps."""
    light = arm(tmp_path, (0.5, 0.25))
    command = vc.JointCommand(q=[0.0], kp=kp, kd=kd)
    trajectory = run(light, command, [start[0]], [start[1]], gravity=(0.0, 0.0, 0.0))
    speed = max(abs(start[1]), abs(start[0]) / H)
    assert ringing(trajectory.v[1:, 0], 1e-7 * speed) == 0  # steps are solved to 1e-9 of it
    assert ringing(trajectory.tau[:, 0], 1e-7 * np.abs(trajectory.tau).max()) == 0
    # after the first steps it moves as the slow way back does, at kp / kd
    slow = kp / kd * np.abs(trajectory.q[4:, 0])
    assert np.all(np.abs(trajectory.v[4:, 0]) <= 1.01 * slow + 1e-3 * speed)
    energy = trajectory.kinetic + 0.5 * kp * trajectory.q[:, 0] ** 2
    assert energy.max() <= energy[0] * (1.0 + 1e-12)  # round-off


@pytest.mark.parametrize("h", [0.02, 0.005, 0.001])
@pytest.mark.parametrize(("kp", "kd"), [(3e3, 30.0), (1e5, 1e3), (1e6, 1e2)])
def test_joints_that_move_together_settle_without_ringing(tmp_path, kp, kd, h):
    three = arm(tmp_path, *THREE)
    q, v = np.array([0.3, -0.8, 0.6]), np.array([1.0, -2.0, 5.0])
    command = vc.JointCommand(q=[0.2, -0.7, 0.5], kp=kp, kd=kd)
    trajectory = run(three, command, q, v, round(0.4 / h), h, gravity=(0.0, 0.0, 0.0))
    for k in range(3):  # several modes decay at once, each by ten and more per step
        assert ringing(trajectory.tau[2:, k], 1e-3 * np.abs(trajectory.tau).max()) == 0
        assert ringing(trajectory.v[2:, k], 1e-3 * np.abs(trajectory.v).max()) == 0
    energy = trajectory.kinetic + 0.5 * kp * ((trajectory.q - command.q) ** 2).sum(axis=1)
    assert energy.max() <= energy[0] * (1.0 + 1e-12)


@pytest.mark.parametrize("damping", [1.0, 1e2, 1e4])
def test_stiff_damping_of_a_joint_does_not_ring(tmp_path, damping):
    light = arm(tmp_path, (0.5, 0.25), (0.2, 0.05), damping=damping)
    trajectory = run(light, None, v=[2.0, -3.0], gravity=(0.0, 0.0, 0.0))
    for k in range(2):
        assert ringing(trajectory.v[1:, k], 1e-7) == 0  # steps are solved to 1e-9 rad/s
    assert np.all(np.diff(trajectory.kinetic) <= 1e-15)
    assert np.abs(trajectory.ledger.defect).max() < 1e-12  # of 0.3 J


@pytest.mark.parametrize(("kp", "kd"), [(1e4, 1e2), (1e6, 1e4)])
@pytest.mark.parametrize("compensated", [False, True])
def test_a_held_load_does_not_move(tmp_path, kp, kd, compensated):
    """A torque that carries a weight is not shifted within the step: the node is at rest."""
    light = arm(tmp_path, (0.5, 0.25), (0.3, 0.1))
    place = np.array([1.0, 0.2])
    carry = pin.rnea(light.model, light.data, place, np.zeros(2), np.zeros(2))
    command = vc.JointCommand(carry if compensated else None, place, kp=kp, kd=kd)
    trajectory = run(light, command, place, steps=3 if compensated else 100)
    rest = place if compensated else place - carry / kp
    # the torques of 1 N m change by 1 N m/rad 1e-4 rad as the arm gives way
    np.testing.assert_allclose(trajectory.q[-1], rest, atol=2e-4 / kp)
    np.testing.assert_allclose(trajectory.v[-1], 0.0, atol=1e-8)  # steps are solved to 1e-9 rad/s
    np.testing.assert_allclose(trajectory.tau[-1], carry, rtol=2e-4)


@pytest.mark.parametrize("solver", ["newton", "ipopt"])
@pytest.mark.parametrize(("kp", "kd"), [(1e4, 1e2), (1e5, 1e2), (5.0, 0.1)])
def test_a_moving_reference_is_followed_with_its_speed(tmp_path, kp, kd, solver):
    """Evenly: where the servo reads it, there is nothing to do, at any stiffness."""
    light = arm(tmp_path, (0.5, 0.25))

    ramp = vc.JointCommand(q=lambda time: [0.5 * time], v=[0.5], kp=kp, kd=kd)
    trajectory = run(light, ramp, v=[0.5], steps=60, gravity=(0.0, 0.0, 0.0), solver=solver)
    np.testing.assert_allclose(trajectory.q[:, 0], 0.5 * trajectory.time, atol=1e-6)
    np.testing.assert_allclose(trajectory.v[:, 0], 0.5, rtol=1e-5)  # (h w)^2 / 6 lower
    np.testing.assert_allclose(trajectory.tau[:, 0], 0.0, atol=1e-8 * kp + 1e-6)


# ------------------------------------------------------------------------- what stays as it was
def test_soft_servos_are_of_second_order(tmp_path):
    two = arm(tmp_path, (0.5, 2.0), (0.4, 0.5))
    command = vc.JointCommand(tau=[0.3, -0.1], q=[0.5, -0.4], v=[0.1, 0.2], kp=5.0, kd=0.1)
    ends = []
    for steps in (25, 50, 100, 200):
        sim = vc.Simulator(two, 0.5 / steps)
        sim.reset([0.3, -0.8], [1.0, -2.0])
        ends.append(sim.run(0.5, command))
        stepper = make_stepper(two, 0.5 / steps, GRAVITY, SolverOptions())
        stepper.set_servos(command.servos(two))
        np.testing.assert_array_equal(stepper.feedback(0.5 / steps)[:, :2], 0.5)  # the midpoint
    for quantity in ("q", "v"):
        last = np.array([getattr(end, quantity)[-1] for end in ends])
        errors = np.abs(np.diff(last, axis=0)).max(axis=1)
        orders = np.log2(errors[:-1] / errors[1:])
        np.testing.assert_allclose(orders[1:], 2.0, atol=0.1)  # as in test_order.py


def test_theta_and_alpha_are_those_of_the_inertias():
    """theta = 1 - 1 / (2 (g + f)), alpha = 1 - g / (2 f), where these are above 1/2."""
    mixed = robot_of(("revolute", "spherical", "prismatic"), True)
    rng = np.random.default_rng(1)
    gains = np.zeros((mixed.nu, 4))
    kp, kd = 10.0 ** rng.uniform(1, 5, mixed.nu), 10.0 ** rng.uniform(-1, 2, mixed.nu)
    single = np.repeat([j.nv == 1 for j in mixed.joints if j.actuated],
                       [j.nv for j in mixed.joints if j.actuated])  # fmt: skip
    gains[:, 2], gains[:, 3] = kp * single, kd
    stepper = make_stepper(mixed, H, GRAVITY, SolverOptions())
    stepper.set_servos(gains)
    stepper.reset(mixed.neutral(), np.zeros(mixed.nv))
    assert stepper.step(np.zeros(mixed.nu), None)[0] == 0
    upper = np.triu(pin.crba(mixed.model, mixed.data, pin.neutral(mixed.model)))
    mobility = np.linalg.inv(upper + np.triu(upper, 1).T).diagonal()[mixed.actuated_dofs]
    g, f = H * kd * mobility, H**2 * gains[:, 2] * mobility
    theta = np.maximum(0.5, 1.0 - 0.5 / (g + f))
    alpha = np.minimum(theta, np.maximum(0.5, 1.0 - 0.5 * g / np.maximum(f, 1e-300)))
    numbers = stepper.feedback(H)[mixed.actuated_dofs]
    np.testing.assert_allclose(numbers[:, 1], theta, rtol=1e-9)
    np.testing.assert_allclose(numbers[:, 0], alpha, rtol=1e-9)
    assert (theta > 0.5).any() and (theta == 0.5).any() and (alpha > 0.5).any()


def test_an_amplification_is_never_a_negative_number():
    """Of a mass with any stiffness and damping, in the recurrence of joint_forces.hpp."""
    g, f = np.meshgrid(10.0 ** np.linspace(-3, 6, 91), 10.0 ** np.linspace(-3, 8, 111))
    theta = np.maximum(0.5, 1.0 - 0.5 / (g + f))
    alpha = np.minimum(theta, np.maximum(0.5, 1.0 - 0.5 * g / f))
    own = 1.0 + theta * (g + alpha * f)
    w_x, w_v = -theta * f / own, 1.0 / own  # mean speed by position and speed, in steps
    b_x, b_v = -f - (g + alpha * f) * w_x, -(g + alpha * f) * w_v
    step = np.stack([[1.0 + w_x, w_v], [w_x + (1 - theta) * b_x, w_v + (1 - theta) * b_v]])
    values = np.linalg.eigvals(np.moveaxis(step, (0, 1), (-2, -1)))
    assert np.abs(values).max() <= 1.0 + 1e-12
    assert values.real.min() >= -1e-12


# ------------------------------------------------------------------------- the twin
@pytest.mark.parametrize("kind", JOINT_MODELS)
@pytest.mark.parametrize("limits", [False, True], ids=["unlimited", "limited"])
def test_residual_and_newton_direction_are_those_of_the_program(kind, limits):
    """Compiled against CasADi, after a step so that there is a feedback before."""
    case = robot_of((kind, "revolute"), True, seed=3)
    case.model.damping[6:] = np.linspace(0.0, 20.0, case.nv - 6)
    case.model.effortLimit[6:] = 5.0
    case.model.velocityLimit[6:] = 1.0
    case = vc.from_pinocchio(case.model)
    if not limits:
        case = unlimited(case)
    rng = np.random.default_rng(7)
    q0, v0 = random_state(case, rng, 0.5)
    single = np.concatenate([np.full(j.nv, j.nv == 1) for j in case.joints if j.actuated])
    gains = 10.0 ** rng.uniform(1.0, 3.0, size=(case.nu, 4)) * [1e-3, 1e-3, 1.0, 0.1]
    gains[:, 2] *= single
    tau = rng.normal(size=case.nu)
    stepper = make_stepper(case, H, GRAVITY, SolverOptions())
    stepper.reset(q0, v0)
    stepper.set_servos(gains)
    assert stepper.step(tau, None)[0] == 0
    numbers = stepper.feedback(H)
    assert (numbers[:, 1] > 0.5).any() and (numbers[:, 2] != 0.0).any()
    stepper.get_q(q0)
    stepper.get_v(v0)
    q1 = pin.integrate(case.model, q0, H * v0 + 0.1 * H * rng.normal(size=case.nv))
    residual, nothing = np.empty(case.nv), np.empty(0)
    stepper.residual_at(q1, nothing, tau, None, residual, nothing)
    right, dq = rng.normal(size=case.nv), np.empty(case.nv)
    assert stepper.newton_direction(right, dq)
    applied, cut = np.empty(case.nu), np.empty(case.nu)
    stepper.get_tau(applied, cut)
    assert cut.any() == limits

    drives = np.zeros((case.nv, DRIVE))
    drives[case.actuated_dofs, 0], drives[case.actuated_dofs, 1:5] = tau, gains
    drives[:, 5:] = numbers
    angles = [case.joint_position(q0, i) if j.nv == 1 else 0.0 for i, j in enumerate(case.joints)]
    for joint_, angle in zip(case.joints, angles, strict=True):
        drives[joint_.idx_v, 1] -= angle if joint_.nv == 1 else 0.0
    block, n = robot_block(case), len(case.bodies)
    left, right_pose = (
        np.hstack([state.p_WB, state.quat_WB_xyzw])
        for state in (case.to_maximal(q0), case.to_maximal(q1))
    )
    signs = np.sign((left[:, 3:] * right_pose[:, 3:]).sum(axis=1, keepdims=True))
    right_pose[:, 3:] *= signs  # the nearer of the two quaternions
    scales = Scales(H, 1.0, 1.0, 1e-3, 0.0)
    p = np.concatenate(
        [scales.numbers, left.ravel(), GRAVITY, np.zeros(6 * n), drives.ravel(), np.zeros(6 * n),
         angles, np.zeros(len(angles))]
    )  # fmt: skip
    w = np.concatenate([(right_pose - left).ravel(), np.zeros(block.own)])
    momentum = block.values(w, p).full().ravel()[: 6 * n]
    P0, P1 = body_jacobian(case, q0), body_jacobian(case, q1)
    mass = np.triu(pin.crba(case.model, case.data, q0))
    start = (mass + np.triu(mass, 1).T) @ v0
    # momenta are of the order 1 N s, tangents 1e3 kg / s
    np.testing.assert_allclose(residual, P0.T @ momentum - start, rtol=1e-9, atol=1e-9)
    by_pose = block.jacobian(w, p).full()[: 6 * n, : 7 * n]
    columns = [
        np.hstack([
            by_pose[:, 7 * i : 7 * i + 3],
            by_pose[:, 7 * i + 3 : 7 * i + 7] @ (0.5 * attitude_jacobian(right_pose[i, 3:]).full()),
        ])
        for i in range(n)
    ]  # fmt: skip
    matrix = P0.T @ np.hstack(columns) @ P1
    np.testing.assert_allclose(matrix @ dq, -right, rtol=1e-8, atol=1e-8)


def test_ipopt_takes_the_same_steps():
    rail = vc.load_robot("fly_hopper_rail")
    q = rail.on_ground(rail.neutral())
    q[0] += 0.01  # it lands on the way
    runs = []
    for solver in ("newton", "ipopt"):
        sim = vc.Simulator(rail, H, solver=solver)
        sim.reset(q)
        runs.append(sim.run(0.12, vc.JointCommand(q=q[[1, 3]] + [0.02, -0.01], kp=3e3, kd=1e2)))
    newton, ipopt = runs
    assert newton.impacts and newton.impacts == ipopt.impacts
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-7, rtol=0.0)  # as in test_ipopt.py
    np.testing.assert_allclose(ipopt.tau, newton.tau, atol=1e-3, rtol=0.0)  # 1e4 N m/rad 1e-7 rad


# ------------------------------------------------------------------------- books and state
def test_the_ledger_adds_up(tmp_path):
    hopper = vc.load_robot("fly_hopper")
    sim = vc.Simulator(hopper, H)
    q = hopper.on_ground(hopper.neutral())
    q[2] += 0.05
    sim.reset(q)
    held = vc.JointCommand(q=actuated_positions(hopper, q), kp=1e5, kd=1e3)
    trajectory = sim.run(0.5, held)
    assert trajectory.impacts
    assert np.abs(trajectory.ledger.defect).max() < 1e-9  # [J]
    three = arm(tmp_path, *THREE, damping=0.5)
    command = vc.JointCommand(q=[0.2, -0.7, 0.5], kp=1e6, kd=1e4)
    ledger = run(three, command, [0.3, -0.8, 0.6], [1.0, -2.0, 5.0]).ledger
    assert np.abs(ledger.defect).max() < 1e-9  # of 2e4 J in the springs


@pytest.mark.parametrize(("kp", "kd"), STIFF, ids=IDS)
def test_what_a_servo_stops_is_its_work(tmp_path, kp, kd):
    """Not the scheme's, though the step resolves nothing of it."""
    light = arm(tmp_path, (0.5, 0.25))
    trajectory = run(light, vc.JointCommand(q=[0.0], kp=kp, kd=kd), v=[3.0], gravity=(0, 0, 0))
    start = trajectory.kinetic[0]
    assert trajectory.ledger.motor.sum() == pytest.approx(-start, rel=0.02)
    damped = arm(tmp_path, (0.5, 0.25), damping=kd)
    ledger = run(damped, vc.JointCommand(tau=[0.0]), v=[3.0], gravity=(0, 0, 0)).ledger
    assert ledger.damping.sum() == pytest.approx(-start, rel=0.02)
    np.testing.assert_array_equal(ledger.motor, 0.0)


def test_momentum_of_a_free_robot_stays():
    free = unlimited(robot_of(("revolute", "spherical", "prismatic"), True, seed=5))
    rng = np.random.default_rng(2)
    q, v = random_state(free, rng, 1.0)
    single = np.concatenate([np.full(j.nv, j.nv == 1) for j in free.joints if j.actuated])
    command = vc.JointCommand(q=np.zeros(free.nu), kp=1e4 * single, kd=1e2)
    motion = run(free, command, q, v, 50, gravity=(0.0, 0.0, 0.0), ground=None)
    for momentum in (motion.linear_momentum, motion.angular_momentum):
        np.testing.assert_allclose(momentum, momentum[:1] + 0.0 * momentum, atol=1e-11)


def test_snapshots_and_commands_that_come_and_go(tmp_path):
    light = arm(tmp_path, (0.5, 0.25), (0.3, 0.1))
    stiff = vc.JointCommand(q=[0.5, -0.2], kp=1e4, kd=1e2)
    sim = vc.Simulator(light, H)
    sim.reset(v=[1.0, 2.0])
    sim.run(0.05, stiff)
    snapshot = sim.snapshot()
    first = sim.run(0.1, stiff)
    sim.restore(snapshot)
    np.testing.assert_array_equal(sim.run(0.1, stiff).q, first.q)
    # nothing of a servo outlives it: a step without one is that of a fresh start from its node
    sim.restore(snapshot)
    fresh = vc.Simulator(light, H)
    fresh.reset(sim.state.q, sim.state.v)
    np.testing.assert_allclose(sim.step().q, fresh.step().q, atol=1e-10)  # solved to h 1e-9 rad/s


def test_rollouts_with_stiff_damping_are_single_runs(tmp_path):
    damped = arm(tmp_path, (0.5, 0.25), (0.3, 0.1), damping=50.0)
    q, v = np.array([[0.5, 0.1], [1.0, -0.2]]), np.array([[1.0, 2.0], [-1.0, 0.5]])
    together = vc.rollout(damped, H, q, v, np.zeros((30, 2)))
    for k in range(2):
        alone = run(damped, lambda _: np.zeros(2), q[k], v[k], 30)
        np.testing.assert_array_equal(together.q[k], alone.q)
