"""Constraints of joints and loops: CasADi, compiled, finite differences, pinocchio's frames."""

import numpy as np
import pinocchio as pin
import pytest
from support import BUNDLED, assert_jacobian, example, random_configuration

import vi_contact as vc
from vi_contact import _core
from vi_contact.mechanics.joints import constraint, robot_constraints
from vi_contact.robot.parts import Joint, JointKind, Loop, Pose

KINDS = list(JointKind)


def random_pose(rng):
    quat = rng.normal(size=4)
    return Pose(rng.normal(size=3), quat / np.linalg.norm(quat))


def random_connection(kind, rng):
    axis, axis2 = rng.normal(size=(2, 3))
    return Loop(
        name="joint",
        kind=kind,
        parent=0,
        child=1,
        frame_parent=random_pose(rng),
        frame_child=random_pose(rng),
        axis=axis / np.linalg.norm(axis),
        axis2=axis2 / np.linalg.norm(axis2),
        links=("a", "b"),
    )


def compiled(connection, A, B):
    return _core.joint_constraint(
        int(connection.kind), A.p, A.quat_xyzw, B.p, B.quat_xyzw,
        connection.frame_parent.vector, connection.frame_child.vector,
        connection.axis, connection.axis2,
    )  # fmt: skip


def moved(pose, dx, dphi):
    rotation = pin.Quaternion(pose.quat_xyzw) * pin.Quaternion(pin.exp3(dphi))
    return Pose(pose.p + dx, rotation.coeffs())


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_rows_equal_the_readable_ones(kind):
    rng = np.random.default_rng(int(kind))
    for _ in range(20):
        connection, A, B = random_connection(kind, rng), random_pose(rng), random_pose(rng)
        error, _, _ = compiled(connection, A, B)
        readable = constraint(connection, A.p, A.quat_xyzw, B.p, B.quat_xyzw)
        assert len(error) == kind.rows
        np.testing.assert_allclose(error, np.ravel(np.array(readable)), atol=1e-13)  # round-off


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_jacobians_against_finite_differences(kind):
    rng = np.random.default_rng(100 + int(kind))
    for _ in range(5):
        connection, A, B = random_connection(kind, rng), random_pose(rng), random_pose(rng)
        _, by_A, by_B = compiled(connection, A, B)
        assert_jacobian(lambda d: compiled(connection, moved(A, d[:3], d[3:]), B)[0], by_A, 6, 1e-8)
        assert_jacobian(lambda d: compiled(connection, A, moved(B, d[:3], d[3:]))[0], by_B, 6, 1e-8)


def columns(state):
    return state.p_WB.T, state.quat_WB_xyzw.T


@pytest.mark.parametrize("name", [*BUNDLED, "go2.urdf", "panda.urdf", "human.urdf"])
def test_poses_of_pinocchio_satisfy_the_constraints(name):
    """Joints hold in any configuration, loops in closed ones; v lies in the null space."""
    robot = vc.load_robot(example(name) if name.endswith(".urdf") else name)
    function = robot_constraints(robot)
    rng = np.random.default_rng(11)
    tree_rows = sum(joint.kind.rows for joint in robot.joints)
    q, v = random_configuration(robot, rng), rng.normal(size=robot.nv)
    state = robot.to_maximal(q, v)
    error, jacobian = (np.array(part) for part in function(*columns(state)))
    assert np.abs(error[:tree_rows]).max() < 1e-12
    rates = np.hstack([state.v_WB, state.w_WB_B]).ravel()
    assert np.abs(jacobian @ rates)[:tree_rows].max() < 1e-11
    neutral_error = np.array(function(*columns(robot.to_maximal(robot.neutral())))[0])
    assert np.abs(neutral_error).max() < 1e-12


@pytest.mark.parametrize("name", [*BUNDLED, "panda.urdf"])
def test_robot_jacobian_against_finite_differences(name):
    robot = vc.load_robot(example(name) if name.endswith(".urdf") else name)
    function = robot_constraints(robot)
    state = robot.to_maximal(random_configuration(robot, np.random.default_rng(12)))
    poses = [Pose(p, Q) for p, Q in zip(state.p_WB, state.quat_WB_xyzw, strict=True)]

    def error(increment):
        parts = increment.reshape(-1, 6)
        now = [moved(pose, d[:3], d[3:]) for pose, d in zip(poses, parts, strict=True)]
        p_WB = np.array([pose.p for pose in now]).T
        quat_WB = np.array([pose.quat_xyzw for pose in now]).T
        return np.ravel(np.array(function(p_WB, quat_WB)[0]))

    jacobian = np.array(function(*columns(state))[1])
    assert_jacobian(error, jacobian, 6 * len(poses), 1e-8)


def test_five_bar_has_23_rows_of_rank_22():
    robot = vc.load_robot("fly_hopper")
    state = robot.to_maximal(robot.neutral())
    jacobian = np.array(robot_constraints(robot)(*columns(state))[1])
    assert jacobian.shape == (23, 30)
    assert np.linalg.matrix_rank(jacobian, tol=1e-9) == 22
    assert (robot.mobility.rows, robot.mobility.rank) == (23, 22)
    assert robot.mobility.degrees_of_freedom == 8
    assert "23 constraint rows of rank 22, 1 redundant" in str(robot.report)


@pytest.mark.parametrize("name", [*BUNDLED, "ur5_robot.urdf", "go2.urdf"])
def test_axes_are_those_along_which_pinocchio_moves(name):
    robot = vc.load_robot(example(name) if name.endswith(".urdf") else name)
    data = robot.model.createData()
    pin.computeJointJacobians(robot.model, data, robot.neutral())
    for i, joint in enumerate(robot.joints):
        assert isinstance(joint, Joint)
        local = pin.getJointJacobian(robot.model, data, i + 1, pin.ReferenceFrame.LOCAL)
        if joint.kind is JointKind.REVOLUTE:
            np.testing.assert_allclose(local[3:, joint.idx_v], joint.axis, atol=1e-15)
        elif joint.kind is JointKind.PRISMATIC:
            np.testing.assert_allclose(local[:3, joint.idx_v], joint.axis, atol=1e-15)
