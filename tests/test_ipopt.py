"""IPOPT's solution of the step against the compiled one, and the program that it solves."""

import logging
import sys

import numpy as np
import pytest
from motion import GRAVITY, bare, example_robot, random_state, robot_of, unlimited
from shapes import box, sphere
from support import assert_jacobian, example
from test_twin import damped, sprung
from urdf_text import INERTIAL, joint, link, loop_square, robot, write

import vi_contact as vc
from vi_contact.mechanics.time_stepping import DRIVE, Scales
from vi_contact.solvers.newton import SolverOptions, make_stepper
from vi_contact.solvers.step_program import (
    Inputs,
    Memory,
    Points,
    Selection,
    StepProgram,
    functions_of,
)

HOPPER = vc.load_robot("fly_hopper")
RAIL = vc.load_robot("fly_hopper_rail")

FLYING = {
    "revolute": lambda p: damped(robot_of(("revolute", "continuous"), False)),
    "prismatic": lambda p: damped(robot_of(("prismatic", "revolute"), True)),
    "spherical": lambda p: damped(robot_of(("spherical", "revolute"), True)),
    "planar": lambda p: damped(robot_of(("planar", "revolute"), False)),
    "floating": lambda p: damped(robot_of(("floating", "revolute"), True)),
    "branches": lambda p: robot_of(("revolute", "spherical", "prismatic"), True, parents=(1, 1, 2)),
    "springs": lambda p: sprung(robot_of(("revolute", "prismatic"), True)),
    "five_bar": lambda p: bare(unlimited(HOPPER)),
    "mimic": lambda p: unlimited(example_robot("panda.urdf", base="fixed")),
    "universal_loop": lambda p: vc.load_robot(write(p, loop_square("universal")), contacts="none"),
}


def pair(robot, time_step=0.01, **options):
    """The same simulation with both solvers."""
    return [vc.Simulator(robot, time_step, solver=name, **options) for name in ("newton", "ipopt")]


@pytest.mark.parametrize("name", FLYING)
def test_free_flight_is_the_same_with_both_solvers(name, tmp_path):
    flying = FLYING[name](tmp_path)
    rng = np.random.default_rng(1)
    q, v = random_state(flying, rng, 0.5)
    tau = 0.05 * rng.normal(size=flying.nu)
    push = {flying.bodies[-1].name: 0.1 * rng.normal(size=6)}
    tight = vc.SolverOptions(momentum_tolerance=1e-13, velocity_tolerance=0.0)
    sims = [
        vc.Simulator(flying, 0.01, options=tight, ground=None, joint_limits=False),
        vc.Simulator(flying, 0.01, solver="ipopt", ground=None, joint_limits=False),
    ]
    for sim in sims:
        sim.reset(q, v)
    for _ in range(5):
        newton, ipopt = (sim.step(tau, push) for sim in sims)
        # IPOPT's tolerance of 1e-9 of the motion of a step, which is 1e-11 m
        np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-10, rtol=0.0)
        np.testing.assert_allclose(ipopt.v, newton.v, atol=1e-8, rtol=0.0)
    # the compiled step's own residual at IPOPT's solution
    assert sims[1].info.residual < 1e-9
    assert sims[1].info.method == "ipopt"


# ------------------------------------------------------------------------------ the Fly-Hopper
HIPS = [1, 3]


def dropped(solver, control, options=None, duration=1.0):
    """The hopper from 0.1 m above the ground onto its foot; control(q) holds the hips there.

    Its spring snaps in the first steps; Newton's solver would take some of them in halves, for they
    gain energy, and IPOPT's does not look at that.
    """
    if solver == "newton":
        options = vc.SolverOptions(max_halvings=0)
    q = RAIL.neutral()
    q[1] = 0.2
    q = RAIL.on_ground(RAIL.close_loops(q, fixed=("joint_0",)))
    q[0] += 0.1
    sim = vc.Simulator(RAIL, 0.01, solver=solver, options=options)
    sim.reset(q)
    return sim.run(duration, control(q))


def pd(q):
    """The controller's own PD, from the last state."""
    return lambda state: 80 * (q[HIPS] - state.q[HIPS]) - state.v[HIPS]


def servo(q):
    """PD solved with the step; stiffer, so that it soon stands."""
    return vc.JointCommand(q=q[HIPS], kp=200.0, kd=20.0)


@pytest.mark.parametrize("control", [pd, servo])
def test_dropped_hopper_lands_and_stands_the_same(control):
    newton, ipopt = (dropped(name, control) for name in ("newton", "ipopt"))
    assert newton.impacts and ipopt.impacts == newton.impacts
    assert control is pd or np.abs(newton.v[-1]).max() < 0.01  # m/s, rad/s: it stands
    # 1e-5 is what matters; IPOPT's products of impulse and gap, 1e-9, leave 1e-8
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-7, rtol=0.0)
    gap = ipopt.contacts["foot"].gap
    assert gap.min() > -1e-12 and abs(gap[-1]) < 1e-11
    force = ipopt.contacts["foot"].force[-1]
    np.testing.assert_allclose(force, newton.contacts["foot"].force[-1], atol=1e-2)
    assert ipopt.constraint_error.max() < 1e-10
    assert np.abs(ipopt.ledger.defect).max() < 1e-7  # of about 10 J
    assert (ipopt.methods == 3).all()


def test_solvers_agree_better_at_a_smaller_tolerance():
    newton = dropped("newton", servo, duration=0.3)
    errors = []
    for tolerance in (1e-6, 1e-8, 1e-10):
        ipopt = dropped("ipopt", servo, vc.IpoptOptions(tolerance=tolerance), duration=0.3)
        errors.append(np.abs(ipopt.q - newton.q).max())
    assert errors[0] < 1e-5  # already with a sloppy tolerance
    assert errors[1] < 0.1 * errors[0]  # in proportion it would be 0.01
    assert errors[2] < 0.1 * errors[1]


def test_stiff_servos_on_saturated_motors_are_the_same():
    q = RAIL.on_ground(RAIL.neutral())
    command = vc.JointCommand(q=[0.5, -0.5], kp=3000.0, kd=20.0)
    trajectories, saturated = [], []
    for sim in pair(RAIL, 0.002):
        sim.reset(q)
        trajectories.append(sim.run(0.02, command))
        saturated.append(sim.info.saturated)
    newton, ipopt = trajectories
    assert saturated[0] == saturated[1] != ()
    assert np.abs(newton.tau).max() == pytest.approx(51.9)  # N m, the current limit
    np.testing.assert_allclose(ipopt.tau, newton.tau, atol=1e-5, rtol=0.0)  # 3000 Nm/rad 1e-9 rad
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-8, rtol=0.0)


def test_a_quadruped_lands_the_same():
    """ANYmal: 492 contacts that may touch, limits on all joints, a servo on each."""
    anymal = vc.load_robot(example("anymal.urdf"))
    q = anymal.on_ground(anymal.neutral())
    q[2] += 0.01
    command = vc.JointCommand(q=q[7:], kp=100.0, kd=5.0)
    trajectories = []
    for sim in pair(anymal):
        sim.reset(q)
        trajectories.append(sim.run(0.12, command))
    newton, ipopt = trajectories
    assert newton.contacts.total_force[-1, 2] > 100.0  # N: it has landed
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-8, rtol=0.0)  # 1e-9 g h^2, amplified


# ------------------------------------------------------------------------------ joints, bounces
def hinge(tmp_path, limit, dynamics=""):
    arm = INERTIAL.replace("<mass", '<origin xyz="0.5 0 0"/><mass')
    axis = joint("hinge", "world", "arm", "revolute", dynamics, limit=limit)
    return vc.load_robot(write(tmp_path, robot(link("world", ""), link("arm", arm), axis)))


def test_joint_limits_and_friction_are_the_same(tmp_path):
    arm = hinge(
        tmp_path,
        '<limit lower="-0.5" upper="0.5" effort="9" velocity="99"/>',
        '<dynamics friction="0.7" damping="0.1"/>',
    )
    newton, ipopt = (sim.run(1.2) for sim in pair(arm))
    assert newton.q.max() > 0.5 - 1e-6  # it reaches the limit
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-8, rtol=0.0)
    assert ipopt.q.max() < 0.5 + 1e-11
    np.testing.assert_allclose(ipopt.ledger.friction.sum(), newton.ledger.friction.sum(), atol=1e-6)


def test_light_fingers_at_their_limits():
    """Panda: fingers of 15 g at their limits, one mimics the other, on an arm of 18 kg."""
    panda = example_robot("panda.urdf")
    newton, ipopt = (sim.run(0.02) for sim in pair(panda, 0.005, ground=None))
    # impulse and gap both near zero: the root of the tolerance, 3e-5, times g h^2
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-6, rtol=0.0)


def test_bounces_are_the_same(tmp_path):
    ground = vc.Ground(restitution=0.7)
    runs = []
    for sim in pair(sphere(tmp_path), ground=ground):
        sim.reset([0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0], [0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
        runs.append(sim.run(0.6))
    assert len(runs[0].impacts) >= 2
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-8, rtol=0.0)


def test_contacts_without_friction(tmp_path):
    runs = []
    for sim in pair(box(tmp_path), ground=vc.Ground(friction=0.0)):
        sim.reset([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        runs.append(sim.run(0.2))
    assert runs[1].q[-1, 0] == pytest.approx(0.2, abs=1e-10)
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-10, rtol=0.0)


def test_impulses_of_contacts_and_limits_about_to_close_count():
    """A tumbling hopper whose joints pass their limits by a hair: residual of the compiled step."""
    rng = np.random.default_rng(6)
    q = HOPPER.neutral()
    quat = rng.normal(size=4)
    q[3:7] = quat / np.linalg.norm(quat)
    sim = vc.Simulator(HOPPER, 0.003, solver="ipopt")
    sim.reset(HOPPER.on_ground(q), np.concatenate([rng.normal(size=6), np.zeros(4)]))
    # ten tolerances of 1e-9 times the momentum of 8 kg at 3 m/s; without those impulses 3e-5
    assert sim.run(0.045).residuals.max() < 2.5e-7


def test_smoothing_widens_the_cone(tmp_path):
    """sqrt(e'e + s^2) - s <= 1 is e'e <= 1 + 2 s."""
    mu, speed, smoothing = 0.3, 1.0, 0.02
    options = vc.IpoptOptions(smoothing=smoothing)
    ground = vc.Ground(friction=mu)
    sim = vc.Simulator(box(tmp_path), solver="ipopt", options=options, ground=ground)
    sim.reset([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], [speed, 0.0, 0.0, 0.0, 0.0, 0.0])
    way = sim.run(0.1).q[-1, 0]
    slowing = mu * np.sqrt(1.0 + 2.0 * smoothing) * 9.81
    assert way == pytest.approx(speed * 0.1 - 0.5 * slowing * 0.1**2, abs=1e-9)  # 2e-4 without it


def test_a_step_without_a_solution_is_taken_in_halves(tmp_path):
    """At h = 0.1 s a box that turns at 10 rad/s has none: a body may turn by 2 rad, not by far."""
    quat = np.array([0.3, -0.2, 0.8, 0.5])
    q = np.concatenate([[0.0, 0.0, 3.0], quat / np.linalg.norm(quat)])
    sims = pair(box(tmp_path), 0.1)
    trajectories = []
    for sim in sims:
        sim.reset(q, [0.0, 0.0, 0.0, -0.7, -2.6, 10.0])
        trajectories.append(sim.run(0.3))
    newton, ipopt = trajectories
    assert (newton.parts > 1).any()
    np.testing.assert_array_equal(ipopt.parts, newton.parts)
    np.testing.assert_allclose(ipopt.q, newton.q, atol=1e-9, rtol=0.0)
    np.testing.assert_allclose(ipopt.v, newton.v, atol=1e-8, rtol=0.0)
    assert np.abs(ipopt.ledger.defect).max() < 1e-9
    np.testing.assert_allclose(ipopt.ledger.integration, newton.ledger.integration, atol=1e-8)


# ------------------------------------------------------------------------------ the program
@pytest.fixture(scope="module")
def program():
    """The hopper's step with foot contact, two limits and friction in a hip."""
    rng = np.random.default_rng(4)
    q, v = random_state(HOPPER, rng, 0.5)
    points = Points(HOPPER, vc.Ground())
    memory = Memory(HOPPER, points.count)
    state = HOPPER.to_maximal(q, v)
    memory.poses[:] = np.hstack([state.p_WB, state.quat_WB_xyzw])
    memory.momentum[:] = rng.normal(size=memory.momentum.shape)
    step = StepProgram(HOPPER, points, [1], Selection({0}, {(1, 0), (3, 1)}), 1e-6)
    n, nv = len(HOPPER.bodies), HOPPER.nv
    inputs = Inputs(
        0.01, GRAVITY, rng.normal(size=(nv, DRIVE)) ** 2, rng.normal(size=(n, 6)),
        np.array([[2.0 / 3.0, 0.9, 0.1, 0.3, -0.2]]), np.zeros(points.count), np.full(n, 0.004),
    )  # fmt: skip
    step.prepare(memory, inputs, Scales(0.01, 0.7, 1e-3, 1e-3, 1e-6))
    return step.program, 0.3 * rng.normal(size=step.program.size), rng


def dense(structure, values, shape):
    matrix = np.zeros(shape)
    np.add.at(matrix, structure, values)
    return matrix


def test_jacobian_of_the_program(program):
    nlp, z, _ = program
    shape = (nlp.row_count, nlp.size)
    matrix = dense(nlp.jacobianstructure(), nlp.jacobian(z), shape)
    # entries of the order 1 to 10, differences to 1e-9 of them
    assert_jacobian(lambda dz: nlp.constraints(z + dz), matrix, nlp.size, 1e-6)
    assert len(nlp.jacobian(z)) < 0.15 * np.prod(shape)


def test_hessian_of_the_program(program):
    nlp, z, rng = program
    y, factor = rng.normal(size=nlp.row_count), 0.7
    lower = dense(nlp.hessianstructure(), nlp.hessian(z, y, factor), (nlp.size, nlp.size))
    assert np.triu(lower, 1).max() == 0.0

    def slope(dz):
        rows, columns = nlp.jacobianstructure()
        gradient = factor * nlp.gradient(z + dz)
        np.add.at(gradient, columns, y[rows] * nlp.jacobian(z + dz))
        return gradient

    matrix = lower + np.tril(lower, -1).T
    assert_jacobian(slope, matrix, nlp.size, 1e-6)  # as above
    assert_jacobian(
        lambda dz: np.array([nlp.objective(z + dz)]), nlp.gradient(z)[None], nlp.size, 1e-8
    )


def test_functions_are_built_once_per_robot():
    first = functions_of(RAIL)
    vc.Simulator(RAIL, 0.02, solver="ipopt", ground=vc.Ground(friction=0.3))
    assert functions_of(RAIL) is first
    assert functions_of(bare(RAIL)) is not first


def test_the_compiled_stepper_takes_no_solution_of_another_robot():
    stepper = make_stepper(RAIL, 0.01, GRAVITY, SolverOptions())
    with pytest.raises(ValueError, match="another robot"):
        stepper.prescribe(np.zeros(3), np.zeros(3), np.zeros((0, 5)), np.zeros((RAIL.nv, 3)), 1)


# ------------------------------------------------------------------------------ the contract
def test_snapshots_and_single_steps_give_the_same_bits():
    sim = vc.Simulator(RAIL, solver="ipopt")
    sim.reset(RAIL.on_ground(RAIL.neutral()))
    sim.run(0.05)
    snapshot = sim.snapshot()
    first = sim.run(0.1)
    sim.restore(snapshot)
    for k in range(10):
        state = sim.step()
        np.testing.assert_array_equal(state.q, first.q[k + 1])
        np.testing.assert_array_equal(state.v, first.v[k + 1])


def test_failed_steps_raise_and_leave_the_state():
    options = vc.IpoptOptions(max_iterations=1, max_halvings=0)
    sim = vc.Simulator(RAIL, solver="ipopt", options=options)
    before = sim.reset(RAIL.on_ground(RAIL.neutral()))
    numbers = sim.snapshot().numbers.copy()
    with pytest.raises(vc.errors.StepFailedError, match="MAX_ITERATIONS.*IPOPT") as caught:
        sim.step()
    assert caught.value.status == "MAX_ITERATIONS"
    assert sim.state is before
    np.testing.assert_array_equal(sim.snapshot().numbers, numbers)
    after = np.empty_like(numbers)
    sim._stepper.get_state(after)
    np.testing.assert_array_equal(after, numbers)
    trajectory = sim.run(0.1, throw=False)
    assert len(trajectory) == 0 and trajectory.status is vc.Status.MAX_ITERATIONS
    np.testing.assert_array_equal(trajectory.q[0], before.q)


def test_the_log_goes_to_our_logger_and_nowhere_else(caplog, capfd):
    with caplog.at_level(logging.DEBUG, logger="vi_contact.ipopt"):
        vc.Simulator(RAIL, solver="ipopt").step()
    lines = [record.getMessage() for record in caplog.records if record.name == "vi_contact.ipopt"]
    assert any("objective" in line and "barrier" in line for line in lines)
    assert any("IPOPT ends with 0" in line for line in lines)
    assert capfd.readouterr() == ("", "")


def test_without_cyipopt_the_rest_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "cyipopt", None)
    with pytest.raises(vc.errors.MissingSolverError, match="pip install 'vi_contact") as caught:
        vc.Simulator(RAIL, solver="ipopt")
    assert caught.value.package == "cyipopt"
    vc.Simulator(RAIL).step()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"solver": "ipop"}, "newton, ipopt"),
        ({"solver": "ipopt", "options": vc.SolverOptions()}, "IpoptOptions"),
        ({"options": vc.IpoptOptions()}, "SolverOptions"),
    ],
)
def test_wrong_solvers_and_options(arguments, words):
    with pytest.raises(vc.errors.OptionError, match=words):
        vc.Simulator(RAIL, **arguments)


@pytest.mark.parametrize(
    "values",
    [
        {"tolerance": 0.0},
        {"tolerance": np.nan},
        {"regularisation": -1.0},
        {"smoothing": 2.0},
        {"max_iterations": 0},
        {"max_halvings": 11},
    ],
)
def test_options_out_of_range(values):
    with pytest.raises(vc.errors.OptionError, match=next(iter(values))):
        vc.IpoptOptions(**values)
