"""The compiled step against the readable equations in CasADi, for every joint type."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pinocchio as pin
import pytest
from motion import (
    GRAVITY,
    JOINT_MODELS,
    bare,
    body_jacobian,
    example_robot,
    random_state,
    robot_of,
    unlimited,
)
from urdf_text import loop_square, write

import vi_contact as vc
from vi_contact.mechanics.discrete_lagrangian import (
    constraint_count,
    poses_of,
    row_count,
    step_balance,
    step_jacobian,
)
from vi_contact.mechanics.springs import all_pulls, midpoint
from vi_contact.robot.parts import Spring
from vi_contact.solvers.newton import SolverOptions, make_stepper

H = 0.01
HOPPER = vc.load_robot("fly_hopper")
AGREE = {"rtol": 1e-9, "atol": 1e-9}  # momenta are of the order 1 N s, tangents 1e2 kg / s


def damped(robot):
    """The same model with damping and rotors on joints that can have them."""
    for joint in robot.joints:
        if joint.kind.name in ("REVOLUTE", "PRISMATIC"):
            robot.model.damping[joint.idx_v] = 0.3
            robot.model.armature[joint.idx_v] = 0.1
        elif joint.kind.name == "SPHERICAL":
            robot.model.damping[joint.idx_v : joint.idx_v + 3] = [0.3, 0.2, 0.1]
            robot.model.armature[joint.idx_v : joint.idx_v + 3] = [0.05, 0.1, 0.2]
        elif joint.parent >= 0:  # planar or floating inside the tree
            robot.model.damping[joint.idx_v : joint.idx_v + joint.nv] = np.arange(joint.nv) / 10.0
    return vc.from_pinocchio(robot.model)


def sprung(robot):
    spring = Spring("s", 0, np.array([0.1, 0.2, 0.3]), 1, np.array([0.3, 0.1, 0.0]), 30.0, 0.2, 0.7)
    ground = replace(spring, name="t", body_1=-1)
    central = replace(ground, name="u", rest_length=0.0)
    damper = replace(spring, name="v", stiffness=0.0, damping=2.0)
    return bare(robot, springs=(spring, ground, central, damper))


CASES = {
    **{
        f"{kind}_fixed": lambda p, k=kind: robot_of((k, "revolute"), False) for kind in JOINT_MODELS
    },
    **{f"{kind}_free": lambda p, k=kind: robot_of((k, "revolute"), True) for kind in JOINT_MODELS},
    "branches": lambda p: robot_of(
        ("revolute", "spherical", "prismatic", "planar"), True, parents=(1, 1, 2, 2)
    ),
    "springs": lambda p: sprung(robot_of(("revolute", "prismatic"), True)),
    "five_bar": lambda p: unlimited(HOPPER, springs=HOPPER.springs),
    "mimic": lambda p: unlimited(example_robot("panda.urdf", base="fixed")),
    **{
        f"loop_{kind}": lambda p, k=kind: vc.load_robot(write(p, loop_square(k)), contacts="none")
        for kind in ("spherical", "revolute", "universal", "prismatic")
    },
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    robot = CASES[request.param](tmp_path_factory.mktemp("robot"))
    if not robot.loops and not robot.mimics and not robot.springs:
        robot = damped(robot)
    return robot


def random_step(robot, seed):
    """Two nodes, torques, wrenches and multipliers; loops need not be closed for a comparison."""
    rng = np.random.default_rng(seed)
    q0 = pin.integrate(robot.model, robot.neutral(), 0.4 * rng.normal(size=robot.nv))
    v0 = 0.5 * rng.normal(size=robot.nv)
    q1 = pin.integrate(robot.model, q0, H * v0 + 0.1 * H * rng.normal(size=robot.nv))
    tau = rng.normal(size=robot.nu)
    tau = np.clip(tau, -0.9, 0.9)  # within every drive's limits
    wrenches = rng.normal(size=(len(robot.bodies), 6))
    loops = sum(loop.kind.rows for loop in robot.loops) + len(robot.mimics)
    tree = sum(joint.kind.rows for joint in robot.joints)
    return rng, q0, v0, q1, tau, wrenches, rng.normal(size=loops), rng.normal(size=tree)


def twin_arguments(robot, q0, q1, tau, wrenches, multipliers):
    nodes = []
    for q in (q0, q1):
        state = robot.to_maximal(q)
        nodes += [state.p_WB.T, state.quat_WB_xyzw.T]
    signs = np.sign((nodes[1] * nodes[3]).sum(axis=0))  # the nearer of the two quaternions
    nodes[3] = nodes[3] * signs
    torque = np.zeros(robot.nv)
    torque[robot.actuated_dofs] = tau
    return (*nodes, torque, wrenches.T, multipliers)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_residual_is_the_projected_balance(case, seed):
    rng, q0, v0, q1, tau, wrenches, loop_forces, joint_forces = random_step(case, seed)
    stepper = make_stepper(case, H, GRAVITY, SolverOptions())
    stepper.reset(q0, v0)
    pulls = rng.normal(size=row_count(case) - constraint_count(case))
    residual, rows = np.empty(case.nv), np.empty(stepper.row_count())
    stepper.residual_at(q1, np.array([*loop_forces, *pulls]), tau, wrenches, residual, rows)
    # forces of the tree's joints do no work on joint motions: any will do
    multipliers = np.concatenate([joint_forces, loop_forces, pulls])
    balance = step_balance(case, H, GRAVITY)
    left = balance(*twin_arguments(case, q0, q1, tau, wrenches, multipliers))[0]
    momentum = mass_matrix(case, q0) @ v0
    expected = body_jacobian(case, q0).T @ left.full().ravel() - momentum
    np.testing.assert_allclose(residual, expected, **AGREE)


def spring_impulses(robot, q0, q1):
    """By the law, of the rows of all springs."""
    nodes = [robot.to_maximal(q) for q in (q0, q1)]
    left, right = (poses_of(ca.SX(x.p_WB.T), ca.SX(x.quat_WB_xyzw.T)) for x in nodes)
    laws = [pull.law for _, pull in all_pulls(robot, left, right, H, midpoint(robot))]
    return ca.evalf(ca.vertcat(ca.SX(0, 1), *laws)).full().ravel()


def mass_matrix(robot, q):
    """P' M P and the rotors, from the bodies themselves."""
    P = body_jacobian(robot, q)
    blocks = np.zeros((len(P), len(P)))
    for i, body in enumerate(robot.bodies):
        blocks[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = body.mass * np.eye(3)
        blocks[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = body.inertia
    rotors = np.concatenate([joint.armature for joint in robot.joints])
    return P.T @ blocks @ P + np.diag(rotors)


@pytest.mark.parametrize("seed", [3, 4])
def test_newton_direction_solves_the_projected_jacobian(case, seed):
    case = bare(case)  # the tree by itself: springs are rows beside it
    rng, q0, v0, q1, tau, wrenches, loop_forces, joint_forces = random_step(case, seed)
    stepper = make_stepper(case, H, GRAVITY, SolverOptions())
    stepper.reset(q0, v0)
    residual, rows = np.empty(case.nv), np.empty(stepper.row_count())
    stepper.residual_at(q1, loop_forces, tau, wrenches, residual, rows)
    right, dq = rng.normal(size=case.nv), np.empty(case.nv)
    assert stepper.newton_direction(right, dq)
    arguments = twin_arguments(
        case, q0, q1, tau, wrenches, np.concatenate([joint_forces, loop_forces])
    )
    by_pose = step_jacobian(case, H, GRAVITY)(*arguments).full()
    matrix = body_jacobian(case, q0).T @ by_pose @ body_jacobian(case, q1)
    np.testing.assert_allclose(matrix @ dq, -right, **AGREE)


@pytest.mark.parametrize("seed", [5, 6])
def test_a_step_satisfies_the_balance_at_both_ends(case, seed):
    """What the compiled step returns solves the equations, and its momentum is the right one."""
    rng = np.random.default_rng(seed)
    q0, v0 = random_state(case, rng, 0.3)
    tau = np.clip(0.05 * rng.normal(size=case.nu), -0.9, 0.9)
    wrenches = 0.1 * rng.normal(size=(len(case.bodies), 6))
    stepper = make_stepper(case, H, GRAVITY, SolverOptions(max_halvings=0))  # as a whole
    stepper.reset(q0, v0)
    assert stepper.step(tau, wrenches)[0] == 0
    q1, v1 = np.empty(case.nq), np.empty(case.nv)
    stepper.get_q(q1)
    stepper.get_v(v1)
    multipliers = np.append(np.zeros(constraint_count(case)), spring_impulses(case, q0, q1))
    arguments = twin_arguments(case, q0, q1, tau, wrenches, multipliers)
    left, right = (part.full().ravel() for part in step_balance(case, H, GRAVITY)(*arguments))
    from vi_contact.robot.closure import closure_rows

    at_start = body_jacobian(case, q0).T @ left - mass_matrix(case, q0) @ v0
    at_end = body_jacobian(case, q1).T @ right - mass_matrix(case, q1) @ v1
    for q, gap in ((q0, at_start), (q1, at_end)):
        loops = closure_rows(case, q)[1]
        # loop forces may take what lies in their range, nothing else
        rest = gap - np.linalg.pinv(loops, rcond=1e-8) @ (loops @ gap) if len(loops) else gap
        np.testing.assert_allclose(rest, 0.0, atol=1e-9)
