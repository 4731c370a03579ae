"""The methods behind a step in contact: their derivatives, each on its own, and what they find."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from motion import robot_of
from shapes import box, sphere
from support import assert_jacobian, example

import vi_contact as vc
from vi_contact.errors import OptionError, TrajectoryFileError, UnsupportedJointError
from vi_contact.simulation.replay import load_failure, save_failure
from vi_contact.solvers.newton import SolverOptions, make_stepper

DOWN = np.array([0.0, 0.0, -9.81])
SWEEPS, INTERIOR = 1, 2


@pytest.fixture(scope="module")
def quadruped() -> vc.Robot:
    return vc.load_robot(example("anymal.urdf"), base="free")


def dropped(robot, rng, h):
    """A random attitude just above the ground, joints anywhere, a random speed."""
    q = robot.neutral()
    for joint in robot.joints:
        if joint.nq == 1 and not robot.loops:
            q[joint.idx_q] = rng.uniform(max(joint.lower[0], -2.0), min(joint.upper[0], 2.0))
    quat = rng.normal(size=4)
    q[3:7] = quat / np.linalg.norm(quat)
    q = robot.on_ground(q)
    q[2] += rng.uniform(0.0, 0.1)
    v = rng.normal(size=robot.nv)
    v[3:6] *= min(3.0, 0.1 / h)
    v[6:] = 0.0
    return q, v


@pytest.mark.parametrize("kind", ["box", "sphere", "hopper", "quadruped"])
def test_rows_of_contacts_are_derivatives(tmp_path, kind, quadruped):
    robots = {
        "box": lambda: box(tmp_path),
        "sphere": lambda: sphere(tmp_path),
        "hopper": lambda: vc.load_robot("fly_hopper"),
        "quadruped": lambda: quadruped,
    }
    robot, h = robots[kind](), 0.01
    ground = vc.Ground(normal=(0.6, 0.0, 0.8), height=-1.0)
    stepper = make_stepper(robot, h, DOWN, SolverOptions(), ground)
    rng = np.random.default_rng(4)
    q0 = dropped(robot, rng, h)[0]
    stepper.reset(q0, np.zeros(robot.nv))
    # far turns, so that the left and the right node differ
    q1 = pin.integrate(robot.model, q0, 0.2 * rng.normal(size=robot.nv))
    size = 3 * len(robot.contacts)
    left, right = np.empty((size, robot.nv)), np.empty((size, robot.nv))

    def displacements(q):
        u = np.empty(size)
        stepper.contact_rows(q, u, left, right)
        return u

    displacements(q1)
    rows = right.copy()
    # levers of 1 m and central differences of 1e-6: 1e-10, ten times that at most
    assert_jacobian(
        lambda d: displacements(pin.integrate(robot.model, q1, d)), rows, robot.nv, 1e-9
    )
    displacements(q0)  # without motion both nodes are the same, and impulses work on the slip
    np.testing.assert_allclose(left, right, atol=1e-13)  # round-off of levers of 1 m


@pytest.mark.parametrize("method", [SWEEPS, INTERIOR])
@pytest.mark.parametrize("kind", ["box", "hopper"])
def test_each_method_alone_finds_the_same_step(tmp_path, kind, method):
    """Three corners of a box that slides have one answer, a fourth leaves a choice of their forces.

    Then friction may turn it differently. Where friction jams, sweeps hand over to the interior
    point.
    """
    robot = box(tmp_path) if kind == "box" else vc.load_robot("fly_hopper")
    h, rng = 0.005, np.random.default_rng(5)
    tight = vc.SolverOptions(velocity_tolerance=1e-11)  # below what is compared
    usual = vc.Simulator(robot, h, ground=vc.Ground(friction=0.6), options=tight)
    alone = vc.Simulator(robot, h, ground=vc.Ground(friction=0.6), options=tight)
    same, unique, by_itself = [], [], []
    for _ in range(8):
        usual.reset(*dropped(robot, rng, h))
        for _ in range(60):
            alone.restore(usual.snapshot())
            alone._stepper.start_with(method)
            state, other = usual.step(), alone.step()
            if not usual.info.contacts or usual.info.parts + alone.info.parts > 2:
                continue
            # both end within 1e-12 m of the laws; levers and light links make more of it
            same.append(np.abs(other.q - state.q).max() < 1e-9)
            unique.append(max(usual.info.contacts, alone.info.contacts) < 4)
            by_itself.append(alone.info.method == ("newton", "sweeps", "interior point")[method])
    assert np.sum(unique) > 80
    assert np.all(np.array(same)[unique])
    assert np.mean(same) > 0.95
    assert np.mean(by_itself) > (0.95 if method == SWEEPS else 0.999)


def test_solutions_obey_the_laws_in_random_states(quadruped):
    robot, rng = quadruped, np.random.default_rng(6)
    touched = slid = 0
    for _ in range(6):
        h, mu = float(rng.uniform(0.002, 0.015)), float(rng.uniform(0.1, 1.5))
        sim = vc.Simulator(robot, h, ground=vc.Ground(friction=mu))
        sim.reset(*dropped(robot, rng, h))
        trajectory = sim.run(80 * h)
        contacts = trajectory.contacts
        own = {contact.name: contact.friction for contact in robot.contacts}
        for step, index, *force, sliding in contacts.touches:
            if trajectory.parts[int(step)] > 1:  # a sum over the parts
                continue
            name = contacts.names[int(index)]
            friction = mu if own[name] is None else own[name]
            normal, tangential = force[2], np.hypot(force[0], force[1])
            touched += 1
            assert normal >= 0.0
            gap = contacts[name].gap
            assert abs(gap[int(step) + 1]) < 1e-11  # ten tolerances
            # the cone, up to 1e-12 m times the stiffness m / h^2, below 1e-3 N here
            assert tangential <= friction * normal + 1e-3
            if sliding:
                slid += 1
                assert tangential == pytest.approx(friction * normal, abs=1e-3)
        for name in contacts:
            assert contacts[name].gap.min() > -1e-11
    assert touched > 500 and slid > 100


def test_contacts_take_energy_and_give_none(quadruped):
    """Energies at the mean velocities of steps, from step to step; the margin of a step is 2 %."""
    rng = np.random.default_rng(7)
    mass = np.array([body.mass for body in quadruped.bodies])
    inertia = np.array([body.inertia for body in quadruped.bodies])
    for _ in range(6):
        h = float(rng.uniform(0.002, 0.02))
        sim = vc.Simulator(quadruped, h, ground=vc.Ground(friction=float(rng.uniform(0.0, 2.0))))
        sim.reset(*dropped(quadruped, rng, h))
        run = sim.run(100 * h)
        v, quat = np.diff(run.p_WB, axis=0) / h, run.quat_WB_xyzw
        u = quat[:-1, :, 3:] * quat[1:, :, :3] - quat[1:, :, 3:] * quat[:-1, :, :3]
        u -= np.cross(quat[:-1, :, :3], quat[1:, :, :3])
        kinetic = 0.5 * (mass * (v**2).sum(-1)).sum(-1)
        kinetic += 2.0 / h**2 * np.einsum("kni,nij,knj->k", u, inertia, u)
        energy = kinetic + 0.5 * (run.potential[1:] + run.potential[:-1])
        whole = run.parts[:-1] == 1  # of a split step the mean velocity says too little
        allowed = 0.021 * (kinetic[1:] + mass.sum() * (9.81 * h) ** 2)
        assert np.all(np.diff(energy)[whole] < allowed[whole])
        assert run.energy[-1] < run.energy[0] - 1.0  # it fell and came to rest, or nearly


def test_legs_do_not_whip_through_the_ground(quadruped):
    # just after an impact the step also has a solution in which a leg turns by 1.9 rad, through the
    # ground and out of it again, with 100 J more
    sim = vc.Simulator(quadruped, 0.018116, ground=vc.Ground(friction=0.785485))
    base = [0.0, 0.0, 1.261634, 0.112449, -0.639534, 0.282236, 0.706183]
    left = [-0.553997, -1.029867, 1.171144, 0.41518, 0.27547, 0.317751]
    right = [-1.150732, 0.996185, 1.428368, 1.846518, -0.983194, 1.037072]
    v = [-0.918151, -1.176225, -0.717631, 1.185851, 2.459923, 1.975757, *np.zeros(12)]
    sim.reset([*base, *left, *right], v)
    run = sim.run(40 * 0.018116)
    assert run.energy.max() < run.energy[0] + 0.1
    assert len(run.contacts.touches) > 10


def test_braking_motors_do_not_hide_a_gain_of_energy():
    # above their no-load speed the motors brake: a solution with far more energy, of which they
    # take half, is no solution
    robot = vc.load_robot("fly_hopper")
    sim = vc.Simulator(robot, 0.011259, ground=vc.Ground(friction=0.900411))
    q = [0.0, 0.0, 0.365432, -0.220278, 0.320442, 0.632286, -0.670081, 0.0, 0.0, 0.0, 0.0]
    v = [0.240749, -0.504193, -1.302737, -1.723738, -0.312596, 3.694602, 0.0, 0.0, 0.0, 0.0]
    sim.reset(robot.close_loops(q), v)
    run = sim.run(40 * 0.011259)
    # the first step, in flight, ends 0.8 J high: the parallel spring turns a link by half a radian,
    # and with a fourth of the step it is 0.005 J
    assert run.ledger.impact[0] == 0.0 and run.energy[1] < run.energy[0] + 1.0
    assert run.energy.max() < run.energy[1] + 0.1
    assert len(run.contacts.touches) > 10


def test_a_quadruped_that_lies_on_many_points_rests(quadruped):
    rng = np.random.default_rng(8)
    sim = vc.Simulator(quadruped, 0.015, ground=vc.Ground(friction=1.2))
    q, v = dropped(quadruped, rng, 0.015)
    sim.reset(q, 0.0 * v)
    run = sim.run(6.0)
    # at a node the contacts take the half step of gravity, 1/2 m (g h / 2)^2 = 0.1 J, that the
    # momentum of a body at rest has: none of it may show
    assert run.kinetic[-50:].max() < 1e-6


def test_drops_repeat_bit_for_bit(quadruped):
    rng = np.random.default_rng(9)
    start = dropped(quadruped, rng, 0.01)
    runs = []
    for _ in range(2):
        sim = vc.Simulator(quadruped, 0.01, ground=vc.Ground(friction=0.9))
        sim.reset(*start)
        runs.append(sim.run(1.5))
    assert (runs[0].methods > 0).any()  # not by Newton's method alone
    np.testing.assert_array_equal(runs[0].q, runs[1].q)
    np.testing.assert_array_equal(runs[0].v, runs[1].v)


@pytest.mark.parametrize("kind", ["spherical", "planar"])
def test_coulomb_friction_needs_one_coordinate(kind):
    model = robot_of((kind, "revolute"), False).model
    model.upperDryFrictionLimit[:] = 0.5
    robot = vc.from_pinocchio(model)
    with pytest.raises(UnsupportedJointError, match=f"{kind}_0.*Coulomb friction"):
        vc.Simulator(robot)
    vc.Simulator(robot, joint_limits=False).run(0.05)


def test_a_saved_step_keeps_replaced_parts(tmp_path):
    hopper = vc.load_robot("fly_hopper").with_parts(springs=())
    sim = vc.Simulator(hopper, 0.005)
    sim.run(0.1)
    save_failure(sim, tmp_path / "step.npz")
    again, tau = load_failure(tmp_path / "step.npz")
    assert again.robot.springs == () and len(again.robot.loops) == len(hopper.loops)
    np.testing.assert_array_equal(again.step(tau).q, sim.step().q)


def test_a_saved_step_of_another_robot_is_refused(tmp_path):
    sim = vc.Simulator(box(tmp_path))
    save_failure(sim, tmp_path / "step.npz")
    box(tmp_path, mass=3.0)  # the file is another now
    with pytest.raises(TrajectoryFileError, match="another robot"):
        load_failure(tmp_path / "step.npz")
    with pytest.raises(OptionError, match="comes from no file"):
        save_failure(vc.Simulator(robot_of(("revolute",), True)), tmp_path / "none.npz")
