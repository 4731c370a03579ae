"""What several tests share: robots to try, random configurations, one finite-difference check."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np

import vi_contact as vc
from vi_contact.robot.parts import Array, JointKind

EXAMPLES = Path(
    str(
        metadata.distribution("example-robot-data").locate_file(
            "cmeel.prefix/share/example-robot-data/robots"
        )
    )
)
EXAMPLE_FILES = sorted(EXAMPLES.rglob("*.urdf"))
BROKEN = "ur3.urdf"
BUNDLED = (
    "fly_hopper",
    "fly_hopper_rail",
    "fly_hopper_wheels",
    "jumper",
    "jumper_free",
    "walker",
)
TEN_EXAMPLES = (
    "panda.urdf",
    "ur5_robot.urdf",
    "kinova.urdf",
    "go2.urdf",
    "solo12.urdf",
    "anymal.urdf",
    "talos_full_v2.urdf",
    "human.urdf",
    "icub.urdf",
    "pr2.urdf",
)


def example(name: str) -> Path:
    """The first example file of that name."""
    return next(file for file in EXAMPLE_FILES if file.name == name)


def random_configuration(robot: vc.Robot, rng: np.random.Generator) -> Array:
    """Any configuration within the limits, several turns where they allow it; loops may be open."""
    q = robot.neutral()
    for joint in robot.joints:
        span = slice(joint.idx_q, joint.idx_q + joint.nq)
        angle = rng.uniform(-np.pi, np.pi)
        if joint.kind is JointKind.PLANAR:
            q[span] = [*rng.normal(size=2), np.cos(angle), np.sin(angle)]
        elif joint.continuous:
            q[span] = [np.cos(angle), np.sin(angle)]
        elif joint.nq == 1:
            q[span] = rng.uniform(max(joint.lower[0], -7.0), min(joint.upper[0], 7.0))
        else:
            quat = rng.normal(size=4)
            place = rng.normal(size=joint.nq - 4)
            q[span] = np.concatenate([place, quat / np.linalg.norm(quat)])
    return q


def assert_jacobian(
    function: Callable[[Array], Array], jacobian: Array, size: int, tolerance: float
) -> None:
    """Compares a Jacobian with central differences of function(increment) about zero."""
    step = 1e-6  # the error of central differences is step^2 plus 1e-16 / step: about 1e-10
    numeric = np.empty((len(function(np.zeros(size))), size))
    for i, unit in enumerate(np.eye(size)):
        numeric[:, i] = (function(step * unit) - function(-step * unit)) / (2.0 * step)
    np.testing.assert_allclose(jacobian, numeric, atol=tolerance, rtol=0.0)
