"""Minimal coordinates to maximal ones and back."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from support import BUNDLED, TEN_EXAMPLES, example, random_configuration

import vi_contact as vc

ROBOTS = [*BUNDLED, *TEN_EXAMPLES]
ROUND_OFF = 1e-12  # a few hundred roundings of numbers about one


def load(name):
    return vc.load_robot(example(name) if name.endswith(".urdf") else name)


@pytest.mark.parametrize("base", ["free", "fixed"])
@pytest.mark.parametrize("name", ROBOTS)
def test_round_trip(name, base):
    robot = load(name) if name in BUNDLED else vc.load_robot(example(name), base=base)
    rng = np.random.default_rng(7)
    for _ in range(5):
        q, v = random_configuration(robot, rng), rng.normal(size=robot.nv)
        q_back, v_back = robot.to_minimal(robot.to_maximal(q, v), near=q)
        np.testing.assert_allclose(q_back, q, atol=ROUND_OFF, rtol=ROUND_OFF)
        np.testing.assert_allclose(v_back, v, atol=ROUND_OFF)


@pytest.mark.parametrize("name", ROBOTS)
def test_body_poses_are_pinocchios_with_the_com_offset(name):
    robot = load(name)
    rng = np.random.default_rng(8)
    q, v = random_configuration(robot, rng), rng.normal(size=robot.nv)
    state = robot.to_maximal(q, v)
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, q, v)
    for i, body in enumerate(robot.bodies):
        placement = data.oMi[i + 1]
        p_WB = placement.translation + placement.rotation @ robot.model.inertias[i + 1].lever * (
            body.mass > 0.0
        )
        np.testing.assert_allclose(state.p_WB[i], p_WB, atol=ROUND_OFF)
        R_WB = pin.Quaternion(state.quat_WB_xyzw[i]).toRotationMatrix()
        np.testing.assert_allclose(R_WB, placement.rotation, atol=ROUND_OFF)


@pytest.mark.parametrize("name", BUNDLED)
def test_velocities_are_the_rate_of_the_poses(name):
    robot = vc.load_robot(name)
    rng = np.random.default_rng(9)
    q, v = random_configuration(robot, rng), rng.normal(size=robot.nv)
    step = 1e-6
    before, after = (
        robot.to_maximal(pin.integrate(robot.model, q, sign * step * v)) for sign in (-1.0, 1.0)
    )
    state = robot.to_maximal(q, v)
    rate = (after.p_WB - before.p_WB) / (2.0 * step)
    np.testing.assert_allclose(state.v_WB, rate, atol=1e-7)  # central differences: step^2, 1e-10
    for i in range(len(robot.bodies)):
        R0, R1 = (pin.Quaternion(s.quat_WB_xyzw[i]).toRotationMatrix() for s in (before, after))
        np.testing.assert_allclose(pin.log3(R0.T @ R1) / (2.0 * step), state.w_WB_B[i], atol=1e-7)


def test_turns_are_taken_near_the_given_configuration():
    robot = vc.load_robot(example("ur5_robot.urdf"), base="fixed")
    q = np.full(6, 5.0)
    wrapped, _ = robot.to_minimal(robot.to_maximal(q))
    np.testing.assert_allclose(wrapped, 5.0 - 2.0 * np.pi, atol=ROUND_OFF)
    kept, _ = robot.to_minimal(robot.to_maximal(q), near=np.full(6, 4.0))
    np.testing.assert_allclose(kept, 5.0, atol=ROUND_OFF)


def test_kinetic_energy_is_the_same_in_both_coordinates():
    robot = vc.load_robot(example("talos_full_v2.urdf"))
    rng = np.random.default_rng(10)
    q, v = random_configuration(robot, rng), rng.normal(size=robot.nv)
    state = robot.to_maximal(q, v)
    energy = 0.0
    for i, body in enumerate(robot.bodies):
        w = state.w_WB_B[i]
        energy += 0.5 * body.mass * state.v_WB[i] @ state.v_WB[i] + 0.5 * w @ body.inertia @ w
    oracle = pin.computeKineticEnergy(robot.model, robot.data, q, v)
    assert energy == pytest.approx(oracle, rel=1e-12)


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (np.zeros(3), r"shape \(3,\), needed is \(11,\)"),
        (np.full(11, np.nan), "entry 0 is not finite"),
        (np.zeros(11), "quaternion x y z w of joint 'root_joint'"),
        ("wrong", "cannot be read"),
    ],
)
def test_bad_configurations_are_refused(q, message):
    robot = vc.load_robot("fly_hopper")
    with pytest.raises(vc.errors.ArrayError, match=message):
        robot.to_maximal(q)
    with pytest.raises(vc.errors.ArrayError, match=message):
        robot.close_loops(q)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("p_WB", np.zeros((2, 3)), r"shape \(2, 3\), needed is \(5, 3\)"),
        ("v_WB", np.full((5, 3), np.nan), "not finite"),
        ("quat_WB_xyzw", np.zeros((5, 4)), "row 0 has length 0"),
    ],
)
def test_bad_states_are_refused(field, value, message):
    robot = vc.load_robot("fly_hopper")
    state = replace(robot.to_maximal(robot.neutral()), **{field: value})
    with pytest.raises(vc.errors.ArrayError, match=message):
        robot.to_minimal(state)


def test_state_of_the_wrong_kind_is_refused():
    robot = vc.load_robot("fly_hopper")
    with pytest.raises(vc.errors.ArgumentError, match="a MaximalState"):
        robot.to_minimal(None)


def test_bad_velocity_is_refused():
    robot = vc.load_robot("walker")
    with pytest.raises(vc.errors.ArrayError, match="'v'"):
        robot.to_maximal([0.0, 0.0], [1.0, np.inf])
