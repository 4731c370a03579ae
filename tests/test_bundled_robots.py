"""The papers' robots have the published parameters."""

import numpy as np
import pinocchio as pin
import pytest
from support import BUNDLED

import vi_contact as vc
from vi_contact.robot.parts import JointKind

HOPPERS = ("fly_hopper", "fly_hopper_rail", "fly_hopper_wheels")


def test_all_six_are_bundled():
    assert vc.bundled_robots() == tuple(sorted(BUNDLED))


@pytest.mark.parametrize(
    ("name", "bodies", "nq", "nv", "nu", "freedom", "mass"),
    [
        ("fly_hopper", 5, 11, 10, 2, 8, 7.72479658946),
        ("fly_hopper_rail", 5, 5, 5, 2, 3, 7.72479658946),
        ("fly_hopper_wheels", 8, 17, 13, 5, 11, 9.61829658946),
        ("jumper", 3, 6, 5, 5, 5, 38.3455),
        ("jumper_free", 3, 12, 10, 4, 10, 38.3455),
        ("walker", 2, 2, 2, 2, 2, 1.0),
    ],
)
def test_sizes(name, bodies, nq, nv, nu, freedom, mass):
    robot = vc.load_robot(name)
    assert robot.name == name
    assert len(robot.bodies) == bodies
    assert (robot.nq, robot.nv, robot.nu) == (nq, nv, nu)
    assert robot.mobility.degrees_of_freedom == freedom
    assert robot.mass == pytest.approx(mass, rel=1e-10)


@pytest.mark.parametrize("name", HOPPERS)
def test_hopper_leg(name):
    robot = vc.load_robot(name)
    link_1 = next(body for body in robot.bodies if body.name == "link_1")
    assert link_1.mass == 0.07079390282
    np.testing.assert_allclose(link_1.com, [0.1493597149, 0.0066869934, 0.0])
    np.testing.assert_allclose(np.diag(link_1.inertia), [3.07e-6, 1.47961e-4, 1.47884e-4])
    hips = {robot.joint_names[motor.joint]: motor for motor in robot.motors}
    for hip in ("joint_0", "joint_2"):
        motor = hips[hip]
        assert motor.torque_constant == pytest.approx(1.73 / 7.0)
        assert (motor.resistance, motor.voltage, motor.current_limit) == (0.3, 48.0, 30.0)
        assert motor.gear_ratio == 7.0
    [spring] = robot.springs
    assert (spring.stiffness, spring.rest_length) == (1500.0, 0.204)
    assert robot.contact_names == ("foot",)
    [foot] = robot.contacts
    assert (foot.radius, foot.friction, foot.link) == (0.025, 0.5, "link_3")


def test_hopper_spring_joins_the_two_knees():
    robot = vc.load_robot("fly_hopper_rail")
    [spring] = robot.springs
    state = robot.to_maximal(robot.neutral())
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, robot.neutral())
    for body, point, knee in (
        (spring.body_1, spring.p_1, "joint_1"),
        (spring.body_2, spring.p_2, "joint_3"),
    ):
        R_WB = pin.Quaternion(state.quat_WB_xyzw[body]).toRotationMatrix()
        place = data.oMi[robot.model.getJointId(knee)].translation
        np.testing.assert_allclose(state.p_WB[body] + R_WB @ point, place, atol=1e-15)


def test_wheels():
    robot = vc.load_robot("fly_hopper_wheels")
    for name, mass, axial in (
        ("wheel_right", 0.782, 0.0066096),
        ("wheel_left", 0.782, 0.0066096),
        ("wheel_yaw", 0.3295, 0.000829),
    ):
        index = robot.joint_names.index(name)
        body, joint = robot.bodies[index], robot.joints[index]
        assert body.mass == mass
        assert joint.axis @ body.inertia @ joint.axis == pytest.approx(axial, rel=1e-12)


def test_jumper():
    robot = vc.load_robot("jumper")
    kinds = [joint.kind for joint in robot.joints]
    assert kinds == [JointKind.PRISMATIC, JointKind.SPHERICAL, JointKind.REVOLUTE]
    masses = {body.name: body.mass for body in robot.bodies}
    assert masses == {"torso": 28.2055, "thigh": 6.86, "calf": 3.28}
    [foot] = robot.contacts
    assert foot.radius == 0.0
    np.testing.assert_allclose(foot.p_BC, [0.0, 0.0, -0.216], atol=1e-15)
    state = robot.to_maximal(robot.neutral())
    height = dict(zip(masses, state.p_WB[:, 2], strict=True))
    assert height["torso"] - height["thigh"] == pytest.approx(0.25 + 0.225)
    assert height["thigh"] - height["calf"] == pytest.approx(0.225 + 0.216)


def test_walker_is_the_papers_two_masses():
    """m = 1, r = 1, I = 0.5: kinetic energy m (x'^2 + r^2 sin^2 th'^2) / 2 + I th'^2 / 2."""
    robot = vc.load_robot("walker")
    theta, slip_rate, theta_rate = 0.3, 0.7, -1.1
    energy = pin.computeKineticEnergy(
        robot.model, robot.data, np.array([0.2, theta]), np.array([slip_rate, theta_rate])
    )
    x_rate = slip_rate + np.cos(theta) * theta_rate
    expected = 0.5 * (x_rate**2 + np.sin(theta) ** 2 * theta_rate**2) + 0.25 * theta_rate**2
    assert energy == pytest.approx(expected, rel=1e-14)
    assert robot.joints[0].damping[0] == 0.2


@pytest.mark.parametrize("name", BUNDLED)
def test_pictures_are_coloured(name):
    shapes = vc.load_robot(name).visual_model.geometryObjects
    assert len(shapes) >= 4
    assert len({tuple(np.round(shape.meshColor, 3)) for shape in shapes}) >= 3
