"""A stranger's URDFs: all of example-robot-data."""

import numpy as np
import pinocchio as pin
import pytest
from lxml import etree
from support import BROKEN, EXAMPLE_FILES, EXAMPLES, TEN_EXAMPLES, example

import vi_contact as vc
from vi_contact.errors import RobotNameError

GOOD_FILES = [file for file in EXAMPLE_FILES if file.name != BROKEN]


def label(file):
    return str(file.relative_to(EXAMPLES))


def link_masses(file):
    values = etree.parse(file).getroot().findall("link/inertial/mass")
    return sum(float(value.get("value")) for value in values)


def test_there_are_69_files_and_one_is_broken():
    assert len(EXAMPLE_FILES) == 69
    assert len(GOOD_FILES) == 68


@pytest.mark.parametrize("base", ["free", "fixed"])
@pytest.mark.parametrize("file", GOOD_FILES, ids=label)
def test_file_loads_with_all_its_mass(file, base):
    robot = vc.load_robot(file, base=base)
    root = [pin.JointModelFreeFlyer()] if base == "free" else []
    model = pin.buildModelFromUrdf(str(file), *root)
    assert len(robot.bodies) == model.njoints - 1
    assert (robot.nq, robot.nv) == (model.nq, model.nv)
    assert robot.mass == pytest.approx(link_masses(file), rel=1e-12)
    assert robot.loop_error(robot.neutral()) < 1e-12
    moving = sum(body.mass for body in robot.bodies)
    assert moving == pytest.approx(robot.mass - robot.model.inertias[0].mass, rel=1e-12)


def test_file_without_robot_name_says_so():
    with pytest.raises(RobotNameError, match="no name"):
        vc.load_robot(example(BROKEN))


@pytest.mark.parametrize("name", [*TEN_EXAMPLES, "romeo.urdf", "alex_psyonic_hands.urdf"])
def test_every_motion_has_inertia(name):
    """The mass matrix is positive: massless links are inside the tree, or completed."""
    robot = vc.load_robot(example(name))
    rng = np.random.default_rng(3)
    q = pin.integrate(robot.model, robot.neutral(), 0.2 * rng.normal(size=robot.nv))
    mass_matrix = pin.crba(robot.model, robot.data, q)
    mass_matrix = np.triu(mass_matrix) + np.triu(mass_matrix, 1).T
    scale = 1.0 / np.sqrt(np.diag(mass_matrix))
    assert np.linalg.eigvalsh(mass_matrix * np.outer(scale, scale))[0] > 1e-9


def test_massless_links_inside_the_tree_stay_massless():
    robot = vc.load_robot(example("human.urdf"))
    massless = [body.name for body in robot.bodies if body.mass == 0.0]
    assert len(massless) == 19
    assert not robot.report.strict_findings
    kept = [finding for finding in robot.report.used if "kept as it is" in finding.message]
    assert len(kept) == 19


def test_massless_leaves_get_a_stated_inertia():
    robot = vc.load_robot(example("romeo.urdf"), contacts="none")
    leaf = robot.bodies[robot.joint_names.index("LFinger13")]
    assert leaf.mass == 0.0
    np.testing.assert_array_equal(leaf.inertia, 1e-6 * np.eye(3))
    lines = [str(finding) for finding in robot.report.approximated]
    assert any("LFinger13" in line and "1e-06 kg m2" in line for line in lines)


def test_mimic_name_without_its_prefix_is_completed_and_reported():
    robot = vc.load_robot(example("alex_psyonic_hands.urdf"), contacts="none")
    pairs = {
        robot.joint_names[mimic.joint]: robot.joint_names[mimic.source] for mimic in robot.mimics
    }
    assert pairs["Left_index_q2"] == "Left_index_q1"
    assert any("Left_index_q1" in finding.message for finding in robot.report.approximated)


def test_indefinite_inertia_is_raised_to_a_possible_one():
    robot = vc.load_robot(example("romeo_laas_small.urdf"), contacts="none")
    for body in robot.bodies:
        assert np.linalg.eigvalsh(body.inertia)[0] >= 0.0
    assert sum("not positive" in finding.message for finding in robot.report.approximated) == 3


def test_transmissions_choose_the_actuated_joints():
    robot = vc.load_robot(example("talos_full_v2.urdf"))
    assert robot.nu == 32
    assert "gripper_left_joint" in robot.actuated_joints
    assert "gripper_left_fingertip_1_joint" not in robot.actuated_joints  # it mimics


def test_meshes_of_a_package_are_found_above_the_file():
    robot = vc.load_robot(example("go2.urdf"))
    assert robot.visual_model.ngeoms > 10
    assert not any("mesh not found" in finding.message for finding in robot.report.findings)
