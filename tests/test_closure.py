"""Closing loops."""

import numpy as np
import pinocchio as pin
import pytest
from support import example
from urdf_text import loop_square, write

import vi_contact as vc
from vi_contact.errors import JointNotFoundError, LoopClosureError

HIPS = ("joint_0", "joint_2")


def joint_values(robot, q, names):
    return [q[robot.joints[robot.joint_names.index(name)].idx_q] for name in names]


def with_hips(robot, angle_0, angle_2):
    q = robot.neutral()
    for name, angle in zip(HIPS, (angle_0, angle_2), strict=True):
        q[robot.joints[robot.joint_names.index(name)].idx_q] = angle
    return q


@pytest.mark.parametrize("name", ["fly_hopper", "fly_hopper_rail", "fly_hopper_wheels"])
def test_neutral_is_closed(name):
    robot = vc.load_robot(name)
    q = robot.neutral()
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    ends = [
        data.oMf[robot.model.getFrameId(link_name)].act(np.array(point))
        for link_name, point in (("link_1", [0.3, 0, 0]), ("link_3", [0.1, 0, 0]))
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-14)  # by pinocchio's own frames


@pytest.mark.parametrize("hips", [(-0.3, 0.3), (0.2, -0.2), (0.5, 0.1), (-0.6, 0.5)])
def test_hips_held_and_the_rest_follows(hips):
    robot = vc.load_robot("fly_hopper")
    q = robot.close_loops(with_hips(robot, *hips), fixed=HIPS)
    assert robot.loop_error(q) < 1e-12
    assert joint_values(robot, q, HIPS) == list(hips)
    for joint in robot.joints[1:]:
        assert joint.lower[0] <= q[joint.idx_q] <= joint.upper[0]


def test_result_is_the_nearest_closed_configuration():
    """No closed configuration in the neighbourhood is nearer to the given one."""
    robot = vc.load_robot("fly_hopper_rail")
    q = robot.neutral() + np.array([0.0, 0.2, -0.1, 0.1, 0.3])
    closed = robot.close_loops(q)
    distance = np.linalg.norm(closed - q)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            other = robot.close_loops(closed + size * rng.normal(size=5))
            assert (
                np.linalg.norm(other - q) >= distance - 1e-9
            )  # flat to first order at the optimum


def test_a_closed_configuration_is_returned_as_it_is():
    robot = vc.load_robot("fly_hopper")
    q = robot.close_loops(with_hips(robot, 0.4, -0.1), fixed=HIPS)
    np.testing.assert_array_equal(robot.close_loops(q), q)


def test_open_loop_with_every_joint_held_cannot_be_closed():
    robot = vc.load_robot("fly_hopper")
    with pytest.raises(LoopClosureError, match="'loop' stays open by .* hold fewer") as caught:
        robot.close_loops(with_hips(robot, 1.2, -1.9), fixed=robot.joint_names)
    assert caught.value.gaps["loop"] > 1e-3
    assert "joint_0" in caught.value.fixed


def test_unknown_fixed_joint_lists_those_that_exist():
    robot = vc.load_robot("fly_hopper")
    with pytest.raises(JointNotFoundError, match="did you mean 'joint_0'"):
        robot.close_loops(robot.neutral(), fixed=("joint0",))


@pytest.mark.parametrize(
    ("kind", "rows", "rank"),
    [("spherical", 3, 2), ("revolute", 5, 2), ("universal", 4, 2), ("fixed", 6, 3)],
)
def test_rank_of_planar_loops(tmp_path, kind, rows, rank):
    """A planar four-bar: whatever closes it, at most three rows are independent."""
    robot = vc.load_robot(write(tmp_path, loop_square(kind)))
    tree = 5 * len(robot.joints)
    assert robot.mobility.rows == tree + rows
    assert robot.mobility.rank == tree + rank
    assert robot.mobility.degrees_of_freedom == robot.nv - rank
    assert robot.loop_error(robot.neutral()) < 1e-12


def test_loop_to_the_world(tmp_path):
    text = loop_square("spherical").replace(
        'link1 link="b" xyz="1 0 0"', 'link1 link="world" xyz="1 0 1"'
    )
    robot = vc.load_robot(write(tmp_path, text))
    assert robot.loops[0].parent == -1
    assert robot.loop_error(robot.neutral()) < 1e-12


def test_mimic_joints_are_closed_too():
    robot = vc.load_robot(example("panda.urdf"), base="fixed")
    q = robot.neutral()
    q[-2] = 0.03
    closed = robot.close_loops(q, fixed=("panda_finger_joint1",))
    assert closed[-1] == pytest.approx(0.03, abs=1e-12)
    assert robot.mobility.degrees_of_freedom == robot.nv - 1


def test_loop_of_impossible_size_is_an_error_at_load(tmp_path):
    text = loop_square("spherical").replace(
        'link2 link="c" xyz="0 0 1"', 'link2 link="c" xyz="0 0 9"'
    )
    assert text != loop_square("spherical")
    with pytest.raises(LoopClosureError, match="check the loop's points"):
        vc.load_robot(write(tmp_path, text))
