"""Closing loops."""

import logging
import time

import numpy as np
import pinocchio as pin
import pytest
from support import example
from urdf_text import extension, joint, link, loop_square, robot, write

import vi_contact as vc
from vi_contact.errors import ArgumentError, JointNotFoundError, LoopClosureError

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
    for part in robot.joints[1:]:
        assert part.lower[0] <= q[part.idx_q] <= part.upper[0]


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


@pytest.mark.parametrize("fixed", [None, [0], 3])
def test_fixed_of_the_wrong_kind(fixed):
    hopper = vc.load_robot("fly_hopper")
    with pytest.raises(ArgumentError, match="list of joint names"):
        hopper.close_loops(hopper.neutral(), fixed=fixed)


def loop(kind, xyz1="0 0 0", xyz2="0 0 0", links=("arm", "base")):
    return extension(
        f'<loop_joint name="loop" type="{kind}"><link1 link="{links[0]}" xyz="{xyz1}"/>'
        f'<link2 link="{links[1]}" xyz="{xyz2}"/><axis xyz="0 1 0"/></loop_joint>'
    )


def hinged(*extra, **options):
    return robot(link("base"), link("arm"), joint("hinge", "base", "arm", **options), *extra)


def test_loop_on_a_robot_with_one_degree_of_freedom(tmp_path):
    text = hinged(loop("spherical", "1 0 0", "1 0 0"))
    loaded = vc.load_robot(write(tmp_path, text), base="fixed")
    np.testing.assert_allclose(loaded.neutral(), [0.0], atol=1e-12)
    assert loaded.mobility.degrees_of_freedom == 0


@pytest.mark.parametrize("origin", ["0 0 0.3", "0.1 0.2 0.3"])
def test_loop_that_repeats_a_hinge_takes_no_freedom(tmp_path, origin):
    """Its Jacobian is round-off, not rank."""
    text = hinged(loop("revolute", "0 0 0", origin), origin=origin)
    loaded = vc.load_robot(write(tmp_path, text), base="fixed")
    assert loaded.mobility.rank == 5
    assert loaded.mobility.degrees_of_freedom == 1


# ---------------------------------------------------------------- mimic joints and turns
FREE = '<limit effort="1" velocity="1"/>'


def follower(tmp_path, kind, source, multiplier):
    mimic = f'<mimic joint="a" multiplier="{multiplier}"/>'
    text = robot(
        link("base"), link("one"), link("two"),
        joint("a", "base", "one", source, limit=FREE),
        joint("b", "one", "two", kind, limit=FREE, body=mimic),
    )  # fmt: skip
    return vc.load_robot(write(tmp_path, text), base="fixed")


@pytest.mark.parametrize(
    ("kind", "multiplier", "turn_error", "checked"),
    [
        ("revolute", 3, 0.0, False),
        ("revolute", 0.5, 2 * np.pi, True),
        ("prismatic", 1, 2 * np.pi, True),
        ("continuous", 2, 0.0, False),
        ("continuous", 0.5, 0.0, True),
    ],
)
def test_turns_of_a_continuous_source(tmp_path, kind, multiplier, turn_error, checked):
    """The error of a follower that is one full turn away from where its source sends it."""
    loaded = follower(tmp_path, kind, "continuous", multiplier)
    q = [1.0, 0.0, 1.0, 0.0] if kind == "continuous" else [1.0, 0.0, 2 * np.pi]
    assert loaded.loop_error(q) == pytest.approx(turn_error, abs=1e-12)
    said = [f for f in loaded.report.checks if "counted from the start" in f.message]
    assert bool(said) is checked


def test_lead_screw_far_from_zero(tmp_path):
    """200 turns per metre: the nut's limits put the screw at 377 rad."""
    nut = '<limit lower="0.3" upper="1" effort="1" velocity="1"/>'
    text = robot(
        link("base"), link("nut"), link("screw"),
        joint("slide", "base", "nut", "prismatic", limit=nut),
        joint("turn", "nut", "screw", limit=FREE, body='<mimic joint="slide" multiplier="1257"/>'),
    )  # fmt: skip
    loaded = vc.load_robot(write(tmp_path, text), base="fixed")
    np.testing.assert_allclose(loaded.neutral(), [0.3, 377.1], rtol=1e-12)


# ---------------------------------------------------------------- far and turned starts
def floating(tmp_path):
    text = robot(
        link("world", ""), link("arm"),
        joint("free", "world", "arm", "floating", limit=""),
        loop("fixed", "0 0 0.2", "1 2 3", ("arm", "world")),
    )  # fmt: skip
    return vc.load_robot(write(tmp_path, text))


@pytest.mark.parametrize("distance", [1.0, 120.0, 1000.0])
def test_loop_a_long_way_off(tmp_path, distance):
    loaded = floating(tmp_path)
    q = loaded.neutral()
    q[0] += distance
    np.testing.assert_allclose(loaded.close_loops(q), loaded.neutral(), atol=1e-10)


def test_floating_joint_turned_by_half_a_turn(tmp_path):
    """The closure's Jacobian is singular there: only a start beside it leads home."""
    loaded = floating(tmp_path)
    q = loaded.neutral()
    q[3:] = [1.0, 0.0, 0.0, 0.0]
    assert loaded.loop_error(loaded.close_loops(q)) < 1e-12


# ---------------------------------------------------------------- limits
def test_closed_only_beyond_the_limits(caplog):
    hopper = vc.load_robot("fly_hopper")
    q = with_hips(hopper, 3.1, 0.0)
    start = time.perf_counter()
    with caplog.at_level(logging.WARNING, logger="vi_contact"):
        closed = hopper.close_loops(q, fixed=("root_joint", *HIPS))
    assert time.perf_counter() - start < 2.0  # 0.1 s here; it was 4 s
    assert hopper.loop_error(closed) < 1e-12
    [record] = caplog.records
    assert "joint_1, joint_3" in record.getMessage()


def test_neutral_beyond_the_limits_is_said(tmp_path, caplog):
    mimic = '<mimic joint="hinge" offset="4"/>'
    text = hinged(link("hand"), joint("wrist", "arm", "hand", body=mimic))
    loaded = vc.load_robot(write(tmp_path, text))
    assert loaded.loop_error(loaded.neutral()) < 1e-12
    [finding] = [f for f in loaded.report.checks if "beyond the limits" in f.message]
    assert "wrist" in finding.message or "hinge" in finding.message
    assert "no closed configuration within the limits" in caplog.text
