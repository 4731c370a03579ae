from collections.abc import Callable, Sequence

from numpy import float64, int32
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

    ``kind``: 0 floating, 1 revolute, 2 prismatic, 3 fixed, 4 spherical, 5 planar, 6 universal,
    7 gliding.
    ``frame_A`` and ``frame_B`` (7,) are x y z and quaternion x y z w of the joint frame in its
    body, ``axis`` and ``axis2`` unit vectors in it. Jacobian columns are (dx in world axes, dphi
    in body axes). ValueError for an unknown kind.
    """

Report = tuple[int, int, float, float, int, int, int, int]
"""Of a step: status, iterations, momentum residual, loop error, body at fault or -1, parts,
closed contacts, method."""

class Model:
    """A robot as plain numbers, made by `make_model`."""

    @property
    def nq(self) -> int: ...
    @property
    def nv(self) -> int: ...
    @property
    def nu(self) -> int: ...
    def add_shape(
        self,
        link: int,
        placement: Array,
        radius: float,
        vertices: Array,
        edges: NDArray[int32],
        faces: Sequence[Sequence[int]],
        normals: Array,
    ) -> None:
        """A polytope swept by a sphere on a link (-1: the world), in the frame of its joint.

        `placement` (7,) is the frame of the shape; vertices (n, 3), normals (f, 3).
        """
    def add_pair(self, shape_1: int, shape_2: int, friction: float, name: int) -> None:
        """Two shapes that may touch; pairs of the same links have the same name."""
    def set_separator(self, separate: Callable[[int, Array], list[float]]) -> None:
        """What measures pairs: from (24,) rotation and position of both shapes to (10,).

        Distance, normal from the first to the second, nearest points.
        """

def make_model(
    link_numbers: NDArray[int32],
    link_values: Array,
    drives: Array,
    loop_numbers: NDArray[int32],
    loop_values: Array,
    mimic_numbers: NDArray[int32],
    mimic_values: Array,
    spring_numbers: NDArray[int32],
    spring_values: Array,
    contact_numbers: NDArray[int32],
    contact_values: Array,
) -> Model:
    """A model from tables with one row per part; `vi_contact.solvers.newton.pack` writes them."""

class Stepper:
    """The variational step of one model; holds its state. Output arrays are written in place."""

    def __init__(
        self,
        model: Model,
        time_step: float,
        gravity: Array,
        momentum_tolerance: float,
        velocity_tolerance: float,
        closure_tolerance: float,
        max_iterations: int,
        max_halvings: int,
        max_turn: float,
        error_tolerance: float,
        contact_tolerance: float,
        ground: Array | None,
    ) -> None: ...
    def reset(self, q: Array, v: Array) -> None:
        """Starts from q (nq,) and v (nv,) at the node."""
    def state_size(self) -> int:
        """Length of the state as numbers."""
    def row_count(self) -> int:
        """Rows of loops, mimic joints, springs and dampers between points."""
    def get_state(self, out: Array) -> None:
        """Writes coordinates, momenta and warm start."""
    def steps_taken(self) -> int: ...
    def set_state(self, state: Array) -> None:
        """Goes back to what `get_state` wrote."""
    def get_q(self, q: Array) -> None:
        """Writes q (nq,)."""
    def get_v(self, v: Array) -> bool:
        """Writes the node velocity v (nv,); False if the mass matrix is singular."""
    def deepest_contact(self) -> tuple[float, int]:
        """Depth of the deepest contact below the ground [m], and its index."""
    def touches(self) -> Array:
        """Rows (contact, force in world axes, sliding) of the last step."""
    def log(self) -> Array:
        """Rows (step, contact, force in world axes, sliding) of the last run."""
    def point_log(self) -> Array:
        """Rows (step, point) of the touches of two links in that log, at the start of the step."""
    def gap_log(self) -> Array:
        """Rows (node, pair of links, gap) of the last run; pairs far apart are left out."""
    def body_gaps(self) -> list[tuple[int, float]]:
        """(pair of links, gap) at the node; pairs far apart are left out."""
    def fastest_rotation(self, v: Array) -> tuple[float, int]:
        """Largest |w| of a body [rad/s] at velocities v, and its index."""
    def step(
        self, tau: Array | None, wrenches: Array | None, time_step: float | None = None
    ) -> Report:
        """One step under tau (nu,) and wrenches (n, 6), world axes at the centres of mass.

        It may have any length; the state is (q, p) at a node, which knows no step.
        """
    def push(self, impulse: Array) -> None:
        """Adds a generalised impulse (nv,) to the momentum at the node."""
    def spring_forces(self) -> Array:
        """Forces of the rows of springs and dampers in the last step, or at the start [N]."""
    def spring_rule(self, time_step: float) -> Array:
        """(rows, 5) of springs in the next step: alpha, share and carried left, and right."""
    def interval_energy(self) -> float:
        """-d L_d / d h of the last step less the mean of its nodes' potentials [J]."""
    def free_acceleration(self, v: Array, tau: Array | None, wrenches: Array | None) -> Array:
        """(nv,) acceleration at the node with velocities v, nothing in contact."""
    def error(self, v0: Array, v1: Array) -> float:
        """Estimate of the error of the last step between node velocities v0 and v1 [m or rad]."""
    def multipliers(self) -> Array:
        """(row_count,) impulses of the rows at the left node of the last step."""
    def node_multipliers(self) -> Array:
        """(row_count,) impulses that loops and mimic joints gave at the node in `get_v`."""
    def set_servos(self, servos: Array | None) -> None:
        """Servos that act from now on, rows (angle, speed, stiffness, damping) per input."""
    def feedback(self, time_step: float) -> Array:
        """(nv, 3): alpha, theta and last feedback of every coordinate in a step of that length."""
    def prescribe(
        self, q1: Array, multipliers: Array, contacts: Array, joints: Array, iterations: int
    ) -> None:
        """Makes the next step end at q1 (nq,): it is taken, with its residual, not solved for.

        Impulses: multipliers of the rows; contacts, rows (contact, world impulse, gap to reach);
        joints (nv, 3), of the lower and the upper limit and of friction.
        """
    def get_tau(self, tau: Array, saturated: Array) -> None:
        """Writes the torques of the last step, and 1 where they are not what was asked for."""
    def run(
        self,
        steps: int,
        tau: Array | None,
        tau_varies: bool,
        wrenches: Array | None,
        q: Array | None,
        v: Array | None,
        applied_tau: Array | None,
        works: Array | None,
        counts: Array | None,
        time_step: float | None = None,
    ) -> tuple[int, Report]:
        """Steps until done or failed, without the GIL; the number done and the last report.

        Records what is not None: q and v with steps + 1 rows; tau, works (motor, external, damping,
        integration error, friction, impact) and counts (iterations, parts, contacts, method,
        residual, error) with one row per step. works and the error need v.
        """
    def observe(
        self, q: Array, v: Array, scalars: Array, poses: Array | None, velocities: Array | None
    ) -> None:
        """Writes what nodes (N, nq), (N, nv) hold.

        scalars (N, 9): kinetic and potential energy, loop error, linear and angular momentum.
        poses (N, n, 7) and velocities (N, n, 6) of the bodies.
        """
    def residual_at(
        self,
        q1: Array,
        multipliers: Array,
        tau: Array | None,
        wrenches: Array | None,
        r: Array,
        errors: Array,
    ) -> None:
        """Writes the momentum residual (nv,) and row errors of a step that would end at q1."""
    def start_with(self, method: int) -> None:
        """Leaves out methods before this one: 0 Newton's, 1 sweeps, 2 the interior point."""
    def contact_rows(self, q1: Array, displacements: Array, left: Array, right: Array) -> None:
        """Writes what all n contacts do in a step that would end at q1.

        Gap and slip (3 n,), rows (3 n, nv) of impulses at the left node and of motion at q1.
        """
    def newton_direction(self, r: Array, dq: Array) -> bool:
        """Writes the increments (nv,) that answer r at the last `residual_at`, loops left out."""

def rollout(
    stepper: Stepper,
    count: int,
    steps: int,
    q: Array,
    v: Array,
    tau: Array | None,
    tau_per_run: bool,
    q_out: Array,
    v_out: Array,
    done: Array,
    threads: int,
) -> None:
    """Runs from q (count, nq), v (count, nv) on threads; `done` gets (steps, status) of each."""
