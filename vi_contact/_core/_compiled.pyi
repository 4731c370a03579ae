from numpy import float64
from numpy.typing import NDArray

Array = NDArray[float64]

def quaternion_product(a_xyzw: Array, b_xyzw: Array) -> Array:
    """The product a b of two quaternions x y z w."""

def rotate(quat_WB_xyzw: Array, v_B: Array) -> Array:
    """The vector v_W = R_WB v_B, for a unit quaternion."""

def quaternion_step(quat_WB_xyzw: Array, w_WB_B: Array, time_step: float) -> Array:
    """The quaternion a time step [s] later, at the midpoint angular velocity w [rad/s].

    Q_{k+1} = Q_k (u, s) with u = time_step w / 2, s = sqrt(1 - u.u); w in body axes. ValueError
    unless |w| < 2 / time_step.
    """

def quaternion_step_tangent(w_WB_B: Array, time_step: float) -> Array:
    """D (3, 3): the body turns by dtheta = time_step D dw, in body axes after the step."""

def joint_constraint(
    kind: int,
    p_WA: Array,
    quat_WA_xyzw: Array,
    p_WB: Array,
    quat_WB_xyzw: Array,
    frame_A: Array,
    frame_B: Array,
    axis: Array,
    axis2: Array,
) -> tuple[Array, Array, Array]:
    """Rows c (m,) of a joint between bodies A and B and their Jacobians (m, 6) of A and of B.

    ``kind``: 0 floating, 1 revolute, 2 prismatic, 3 fixed, 4 spherical, 5 planar, 6 universal.
    ``frame_A`` and ``frame_B`` (7,) are x y z and quaternion x y z w of the joint frame in its
    body, ``axis`` and ``axis2`` unit vectors in it. Jacobian columns are (dx in world axes, dphi
    in body axes). ValueError for an unknown kind.
    """
