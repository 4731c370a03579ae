"""Unit quaternions, x y z w, body to world, for CasADi expressions.

A small rotation ``dphi`` in body axes changes a quaternion by ``dQ = 1/2 G(Q) dphi``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import casadi as ca

Expression: TypeAlias = Any
"""A CasADi SX, MX or DM column."""


def product(a: Expression, b: Expression) -> Expression:
    """(4,) Hamilton product a b: rotate by b, then by a."""
    return ca.vertcat(
        a[3] * b[:3] + b[3] * a[:3] + ca.cross(a[:3], b[:3]), a[3] * b[3] - ca.dot(a[:3], b[:3])
    )


def conjugate(a: Expression) -> Expression:
    """(4,) the inverse of a unit quaternion."""
    return ca.vertcat(-a[:3], a[3])


def rotate(a: Expression, vector: Expression) -> Expression:
    """(3,) R(a) vector, with v + 2 w (u x v) + 2 u x (u x v)."""
    twice = 2.0 * ca.cross(a[:3], vector)
    return vector + a[3] * twice + ca.cross(a[:3], twice)


def attitude_jacobian(a: Expression) -> Expression:
    """(4, 3) G(Q), the columns Q (e_i, 0): dQ = 1/2 G dphi."""
    return ca.horzcat(*(product(a, ca.DM([*axis, 0.0])) for axis in ca.DM.eye(3).full().tolist()))
