"""Compiled rotations against scipy and finite differences."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from vi_contact import _core


def unit(rng, n):
    x = rng.normal(size=n)
    return x / np.linalg.norm(x)


def rotation_matrix(q):
    return np.column_stack([_core.rotate(q, e) for e in np.eye(3)])


def test_product_and_rotation_against_scipy():
    rng = np.random.default_rng(1)
    a, b, v = unit(rng, 4), unit(rng, 4), rng.normal(size=3)
    np.testing.assert_allclose(_core.rotate(a, v), Rotation.from_quat(a).apply(v), atol=1e-15)
    np.testing.assert_allclose(
        rotation_matrix(_core.quaternion_product(a, b)),
        (Rotation.from_quat(a) * Rotation.from_quat(b)).as_matrix(),
        atol=1e-15,
    )


def test_step_keeps_the_norm_and_its_tangent_is_its_derivative():
    rng = np.random.default_rng(2)
    q, w, h, eps = unit(rng, 4), rng.normal(size=3) * 10, 0.05, 1e-6
    q3 = _core.quaternion_step(q, w, h)
    assert abs(np.linalg.norm(q3) - 1) < 1e-15
    D = _core.quaternion_step_tangent(w, h)
    for j, dw in enumerate(eps * np.eye(3)):
        dq = (_core.quaternion_step(q, w + dw, h) - _core.quaternion_step(q, w - dw, h)) / (2 * eps)
        dtheta = 2 * _core.quaternion_product(q3 * [-1, -1, -1, 1], dq)[:3]
        np.testing.assert_allclose(h * D[:, j], dtheta, atol=1e-9)


@pytest.mark.parametrize("w", [[200.0, 0, 0], [300.0, 0, 0], [np.nan, 0, 0]])
def test_too_fast_a_step_is_refused(w):
    with pytest.raises(ValueError, match="below 2 / time_step"):
        _core.quaternion_step(np.array([0.0, 0, 0, 1]), np.array(w), 0.01)


def test_unknown_kind_is_named():
    z, i = np.zeros(3), np.array([0.0, 0, 0, 1])
    with pytest.raises(ValueError, match="no joint kind 8"):
        _core.joint_constraint(8, z, i, z, i, np.r_[z, i], np.r_[z, i], z, z)
