"""Closed loops stay closed, redundant rows and all; mimic joints follow."""

import mechanisms
import numpy as np
import pinocchio as pin
import pytest
from motion import bare, example_robot, random_state
from urdf_text import loop_square, write

import vi_contact as vc


def holding_torque(robot, q):
    """Hip torques that balance the spring at q, in free flight."""
    from motion import Oracle

    from vi_contact.robot.closure import closure_rows

    force = Oracle(robot)._springs(q, np.zeros(robot.nv))
    jacobian = closure_rows(robot, q)[1]
    motion = np.linalg.svd(jacobian)[2][np.linalg.matrix_rank(jacobian, tol=1e-8) :]
    inputs = np.zeros((robot.nv, robot.nu))
    inputs[robot.actuated_dofs, range(robot.nu)] = 1.0
    return np.linalg.lstsq(motion @ inputs, -motion @ force, rcond=None)[0]


def test_five_bar_stays_closed_in_every_one_of_100_000_steps():
    robot = bare(vc.load_robot("fly_hopper"))
    sim = vc.Simulator(robot, 0.01, (0.0, 0.0, 0.0), ground=None, joint_limits=False)
    rng = np.random.default_rng(0)
    q, v = random_state(robot, rng, 0.2)
    sim.reset(q, v)
    trajectory = sim.run(1000.0)
    assert len(trajectory) == 100_000
    error = trajectory.constraint_error
    assert error.max() < 1e-9  # the bound; the solver's own is 1e-12
    assert error[-10_000:].max() < 2e-12  # no drift


def test_five_bar_with_its_spring_held_by_the_hips():
    robot = vc.load_robot("fly_hopper")
    q = robot.neutral()
    tau = holding_torque(robot, q)
    assert np.abs(tau).max() > 5.0  # the spring pulls with 232 N
    sim = vc.Simulator(robot, 0.01, (0.0, 0.0, 0.0), ground=None, joint_limits=False)
    sim.reset(q)
    trajectory = sim.run(0.2, lambda _: tau)
    # a balance of forces: nothing moves for 20 steps
    assert np.abs(pin.difference(robot.model, q, trajectory.q[-1])).max() < 1e-6
    assert trajectory.constraint_error.max() < 2e-12


@pytest.mark.parametrize("kind", ["spherical", "revolute", "universal"])
def test_planar_square_with_redundant_rows(tmp_path, kind):
    # a planar loop needs two rows; these have three, five and four
    robot = vc.load_robot(write(tmp_path, loop_square(kind)), contacts="none")
    q = robot.close_loops(robot.neutral() + np.array([0.3, 0.0, 0.0]), fixed=("j_a",))
    sim = vc.Simulator(robot, 0.01, ground=None, joint_limits=False)
    sim.reset(q)
    trajectory = sim.run(3.0)
    assert trajectory.constraint_error.max() < 1e-11  # Newton's tolerance is 1e-12
    assert np.ptp(trajectory.q[:, 0]) > 0.3  # it swings
    assert np.ptp(trajectory.energy) < 1e-2 * np.ptp(trajectory.potential)


def test_fixed_loop_welds_two_chains(tmp_path):
    robot = vc.load_robot(write(tmp_path, loop_square("fixed")), contacts="none")
    sim = vc.Simulator(robot, 0.01, ground=None, joint_limits=False)
    q = sim.state.q
    trajectory = sim.run(1.0)
    # three hinges and a weld on a square: no motion is left
    assert np.abs(trajectory.q[-1] - q).max() < 1e-9


def test_mimic_joint_follows():
    robot = example_robot("panda.urdf", base="fixed")
    (mimic,) = robot.mimics
    sim = vc.Simulator(robot, 0.005, ground=None, joint_limits=False)
    tau = np.zeros(robot.nu)
    tau[robot.actuated_joints.index(robot.joints[mimic.source].name)] = 0.3
    trajectory = sim.run(0.2, lambda _: tau)
    joint, source = (robot.joints[i].idx_q for i in (mimic.joint, mimic.source))
    followed = mimic.multiplier * trajectory.q[:, source] + mimic.offset
    np.testing.assert_allclose(trajectory.q[:, joint], followed, atol=2e-12, rtol=0.0)
    assert np.ptp(trajectory.q[:, source]) > 1e-3


def test_velocity_at_the_node_keeps_the_loop_closed():
    from vi_contact.robot.closure import closure_rows

    robot = bare(vc.load_robot("fly_hopper"))
    sim = vc.Simulator(robot, 0.01, ground=None, joint_limits=False)
    rng = np.random.default_rng(1)
    sim.reset(*random_state(robot, rng, 0.5))
    for _ in range(20):
        state = sim.step(0.05 * rng.normal(size=2))
        assert np.abs(closure_rows(robot, state.q)[1] @ state.v).max() < 1e-9  # m/s


def test_start_velocity_is_projected_on_the_loop():
    from vi_contact.robot.closure import closure_rows

    robot = bare(vc.load_robot("fly_hopper"))
    sim = vc.Simulator(robot, 0.01, ground=None, joint_limits=False)
    v = np.zeros(robot.nv)
    v[6] = 1.0
    jacobian = closure_rows(robot, robot.neutral())[1]
    assert np.abs(jacobian @ v).max() > 0.05
    state = sim.reset(v=v)
    assert np.abs(jacobian @ state.v).max() < 1e-12  # round-off


# ---------------------------------------------------------------- mechanisms, see benchmarks/loops
MECHANISMS = {**mechanisms.FIXED, **mechanisms.FREE_BASE}


def mechanism(tmp_path, name):
    return vc.load_robot(write(tmp_path, MECHANISMS[name]()), contacts="none")


@pytest.mark.parametrize(
    ("name", "rows", "rank"),
    [
        ("delta", 15, 15),
        ("stewart", 15, 15),
        ("rssr", 3, 3),
        ("bennett", 5, 2),
        ("parallel cranks", 10, 3),
        ("twice hinged", 5, 0),
        ("digit-like", 18, 18),
        ("talos-like", 22, 16),
    ],
)
def test_mechanisms_have_the_rank_they_should(tmp_path, name, rows, rank):
    loaded = mechanism(tmp_path, name)
    assert sum(loop.kind.rows for loop in loaded.loops) == rows
    assert loaded.nv - loaded.mobility.degrees_of_freedom == rank


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("control", ["passive", "PD"])
def test_mechanisms_move_with_few_iterations(tmp_path, name, control):
    """Light rods beside heavy links, loops that add no rank: nothing is swamped, nothing fails."""
    loaded = mechanism(tmp_path, name)
    free = name in mechanisms.FREE_BASE
    gravity = (0.0, 0.0, 0.0) if free else (0.0, 0.0, -9.81)
    sim = vc.Simulator(loaded, 0.002, ground=None, joint_limits=False, gravity=gravity)
    sim.reset(v=np.random.default_rng(0).normal(size=loaded.nv))
    hold = None if control == "passive" else vc.JointCommand(q=0.0, kp=50.0, kd=1.0)
    t = sim.run(2.0, hold)
    assert t.iterations.mean() < 3.0
    assert t.constraint_error.max() < 2e-12  # closure_tolerance, and round-off of half a metre
    if control == "passive":
        # what loops may take or give in a step is 1e-3; such steps are few and of either sign
        np.testing.assert_allclose(t.energy, t.energy[0], atol=0.01 * t.kinetic.max())


def test_light_rods_cost_nothing(tmp_path):
    """Rods of a gram and of a tenth of a milligram: the same motion, the same effort."""
    ends = []
    for mass in (1e-3, 1e-7):
        loaded = vc.load_robot(write(tmp_path, mechanisms.delta(mass)), contacts="none")
        sim = vc.Simulator(loaded, 0.002, ground=None, joint_limits=False)
        t = sim.run(0.5, vc.StepFunction(lambda time: [0.3, 0.1, -0.2]))
        assert t.iterations.mean() < 3.0  # it was thousands
        ends.append([t.q[-1][loaded.joints[i].idx_q] for i in (0, 3, 6)])
    # a gram beside 1.4 kg of arms and platform
    np.testing.assert_allclose(ends[0], ends[1], atol=0.02)


def test_a_passive_delta_keeps_its_energy_near_singular_configurations(tmp_path):
    """It comes near them at 2.18, 5.35 and 6.11 s; steps of 5 ms gained as much as it had."""
    loaded = mechanism(tmp_path, "delta")
    sim = vc.Simulator(loaded, 0.002, ground=None, joint_limits=False)
    sim.reset(v=np.random.default_rng(0).normal(size=loaded.nv))
    t = sim.run(10.0)
    assert (t.parts > 1).any()  # such steps were met, and taken in parts
    assert (t.energy - t.energy[0]).max() < 0.01 * t.kinetic.max()


def test_a_loop_that_adds_no_rank_has_no_impulses(tmp_path):
    """The robot with its hinge declared twice moves as it does with one."""
    twice = mechanism(tmp_path, "twice hinged")
    ends = []
    for loaded in (twice, bare(twice, loops=())):
        sim = vc.Simulator(loaded, 0.005, ground=None, joint_limits=False)
        v = np.random.default_rng(0).normal(size=twice.nv)
        sim.reset(v=v)
        ends.append(sim.run(1.0, vc.StepFunction(lambda time: [0.2])).q[-1])
    # beside the tolerance of each step, 1e-10 N s, over 200 steps
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-7)
