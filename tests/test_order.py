"""The method is of second order, in q and in v, against pinocchio's forward dynamics."""

from dataclasses import replace

import numpy as np
import pytest
from motion import (
    JOINT_MODELS,
    bare,
    chain_urdf,
    example_robot,
    observed_orders,
    random_state,
    robot_of,
    unlimited,
)

import vi_contact as vc

# Halving the step divides the error by four: slopes 2.0 +- 0.1.
SLOPE = {"abs": 0.1}


def assert_second_order(robot, seed, speed, torque, time=0.2, steps=(20, 40, 80)):
    rng = np.random.default_rng(seed)
    q, v = random_state(robot, rng, speed)
    tau = torque * rng.normal(size=robot.nu)
    in_q, in_v = observed_orders(robot, q, v, tau, time, steps)
    assert in_q == pytest.approx(2.0, **SLOPE), in_q
    assert in_v == pytest.approx(2.0, **SLOPE), in_v


@pytest.mark.parametrize("links", [1, 2])
def test_pendulum_and_double_pendulum(tmp_path, links):
    robot = vc.load_robot(chain_urdf(tmp_path, links))
    assert_second_order(robot, seed=1, speed=2.0, torque=0.3)


def test_seven_joint_arm():
    # the fingers follow each other: a mimic joint is in it
    robot = unlimited(example_robot("panda.urdf", base="fixed"))
    assert_second_order(robot, seed=2, speed=0.3, torque=0.1, time=0.1)


def test_quadruped():
    assert_second_order(example_robot("solo12.urdf"), seed=3, speed=0.5, torque=0.01, time=0.1)


def test_five_bar_in_flight_with_torques():
    # without the spring, whose 232 N snap the leg open within two steps
    assert_second_order(bare(vc.load_robot("fly_hopper")), seed=4, speed=0.5, torque=0.05)


def test_five_bar_with_spring_and_spring_damper():
    hopper = vc.load_robot("fly_hopper")
    springs = tuple(replace(s, stiffness=50.0, damping=0.5) for s in hopper.springs)
    robot = bare(hopper, springs=springs)
    assert_second_order(robot, seed=5, speed=0.3, torque=0.05, time=0.1)


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("kind", JOINT_MODELS)
def test_every_joint_type(kind, free):
    robot = robot_of((kind, "revolute"), free, seed=6)
    assert_second_order(robot, seed=7, speed=0.5, torque=0.2)


def test_damping_and_rotor_inertia():
    robot = robot_of(("revolute", "prismatic", "spherical"), free=True, seed=8)
    robot.model.damping[6:] = 0.4
    robot.model.armature[6:] = 0.2
    robot = vc.from_pinocchio(robot.model)
    assert sum(joint.damping.sum() for joint in robot.joints) == pytest.approx(2.0)
    # a spherical joint's armature is an isotropic rotor; pinocchio's has no gyroscopic term either
    assert_second_order(robot, seed=9, speed=0.5, torque=0.2)
