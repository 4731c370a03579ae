"""The same motion from two other formulations, written here without the library's equations.

Directors (12 coordinates per body): a body is its centre of mass x and its rotation matrix R, nine
numbers held together by six constraints. With the second moments E, J = tr(E) I - E,

    L_d = m |x1 - x0|^2 / (2 h) + tr((R1 - R0) E (R1 - R0)') / (2 h) - h/2 (V0 + V1)

and the discrete Euler-Lagrange equations of all bodies are solved with multipliers of every
constraint. Null space: the same balance projected on joint motions and solved for the joints'
coordinates alone.
"""

import numpy as np
import pinocchio as pin
import pytest
from motion import GRAVITY, bare, body_jacobian, random_state, robot_of, unlimited

import vi_contact as vc
from vi_contact.mechanics.discrete_lagrangian import step_balance
from vi_contact.robot.parts import JointKind


class Directors:
    """Bodies as x and R, hinges and loop points as dot products of their columns."""

    def __init__(self, robot, h):
        self.robot, self.h, self.n = robot, h, len(robot.bodies)
        self.moments = []
        for body in robot.bodies:
            J = body.inertia
            self.moments.append(0.5 * np.trace(J) * np.eye(3) - J)

    def split(self, z):
        z = z.reshape(self.n, 12)
        return z[:, :3], z[:, 3:].reshape(self.n, 3, 3)

    def pack(self, q):
        state = self.robot.to_maximal(q)
        R = [pin.Quaternion(quat).matrix() for quat in state.quat_WB_xyzw]
        return np.hstack([state.p_WB, np.array(R).reshape(self.n, 9)]).ravel()

    def constraints(self, z):
        """Orthonormal directors; points that meet; hinge axes that stay normal to two directors."""
        x, R = self.split(z)
        rows = []
        for i in range(self.n):
            rows += list((R[i].T @ R[i] - np.eye(3))[np.triu_indices(3)])
        for joint in (*self.robot.joints, *self.robot.loops):
            A, B = joint.parent, joint.child
            xA, RA = (np.zeros(3), np.eye(3)) if A < 0 else (x[A], R[A])
            F = pin.Quaternion(joint.frame_parent.quat_xyzw).matrix()
            G = pin.Quaternion(joint.frame_child.quat_xyzw).matrix()
            if joint.kind is JointKind.FLOATING:
                continue
            rows += list(x[B] + R[B] @ joint.frame_child.p - xA - RA @ joint.frame_parent.p)
            if joint.kind is JointKind.REVOLUTE:
                _, across = np.linalg.svd(joint.axis[None])[1:]
                rows += list((across[1:] @ (RA @ F).T) @ (R[B] @ G @ joint.axis))
            else:
                assert joint.kind is JointKind.SPHERICAL
        return np.array(rows)

    def jacobian(self, z):
        """By complex steps, exact to round-off: the constraints are polynomials."""
        columns = []
        for k in range(len(z)):
            step = z.astype(complex)
            step[k] += 1e-30j
            columns.append(self.constraints_complex(step).imag / 1e-30)
        return np.array(columns).T

    constraints_complex = constraints

    def balance(self, z0, z1, z2):
        """Discrete Euler-Lagrange terms at z1, without constraint forces."""
        parts = []
        nodes = [self.split(z) for z in (z0, z1, z2)]
        (x0, R0), (x1, R1), (x2, R2) = nodes
        for i, body in enumerate(self.robot.bodies):
            linear = body.mass * (x2[i] - 2.0 * x1[i] + x0[i]) / self.h
            parts.append(linear - self.h * body.mass * GRAVITY)
            parts.append(((R2[i] - 2.0 * R1[i] + R0[i]) @ self.moments[i] / self.h).ravel())
        return np.concatenate(parts)

    def step(self, z0, z1):
        """z2 with the constraints' forces at z1, by Newton."""
        forces = self.jacobian(z1).T
        size, rows = len(z1), forces.shape[1]
        mass = np.zeros((size, size))
        for k in range(size):
            unit = np.zeros(size)
            unit[k] = 1.0
            zero = np.zeros(size)
            mass[:, k] = self.balance(zero, zero, unit) - self.balance(zero, zero, zero)
        z2, multipliers = 2.0 * z1 - z0, np.zeros(rows)
        for _ in range(20):
            top = self.balance(z0, z1, z2) - forces @ multipliers
            bottom = self.constraints(z2)
            if max(np.abs(top).max(), np.abs(bottom).max()) < 1e-13:
                break
            matrix = np.block([[mass, -forces], [self.jacobian(z2), np.zeros((rows, rows))]])
            # least squares: the loop has a redundant row
            delta = np.linalg.lstsq(matrix, -np.concatenate([top, bottom]), rcond=1e-13)[0]
            z2, multipliers = z2 + delta[:size], multipliers + delta[size:]
        return z2


ROBOTS = {
    "body": lambda: robot_of((), free=True, seed=1),
    "chain": lambda: robot_of(("revolute", "spherical"), free=False, seed=2),
    "tree": lambda: robot_of(("revolute", "revolute"), free=True, seed=3, parents=(1, 1)),
    "five_bar": lambda: bare(vc.load_robot("fly_hopper")),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_director_formulation_gives_the_same_trajectory(name):
    robot = ROBOTS[name]()
    h, steps = 0.01, 20
    options = vc.SolverOptions(momentum_tolerance=1e-13, velocity_tolerance=0.0)
    sim = vc.Simulator(robot, h, GRAVITY, options)
    sim.reset(*random_state(robot, np.random.default_rng(4), 0.5))
    trajectory = sim.run(h * steps)
    directors = Directors(robot, h)
    z = [directors.pack(trajectory.q[0]), directors.pack(trajectory.q[1])]
    for k in range(1, steps):
        z.append(directors.step(z[-2], z[-1]))
        # metres and direction cosines; the bound is the issue's
        np.testing.assert_allclose(z[-1], directors.pack(trajectory.q[k + 1]), atol=1e-9, rtol=0.0)
    assert np.abs(z[-1] - z[0]).max() > 0.05  # something happened


@pytest.mark.parametrize(
    "robot",
    [
        robot_of(("revolute", "prismatic", "spherical"), free=True, seed=5),
        robot_of(("planar", "floating", "continuous"), free=False, seed=6),
        unlimited(vc.load_robot("jumper_free")),
    ],
    ids=["free", "fixed", "jumper"],
)
def test_null_space_form_gives_the_same_step(robot):
    h = 0.01
    rng = np.random.default_rng(7)
    q0, v0 = random_state(robot, rng, 0.5)
    tau = 0.2 * rng.normal(size=robot.nu)
    sim = vc.Simulator(
        robot, h, GRAVITY, vc.SolverOptions(momentum_tolerance=1e-13, velocity_tolerance=0.0)
    )
    sim.reset(q0, v0)
    trajectory = sim.run(2 * h, lambda _: tau)
    q1, q2 = trajectory.q[1], trajectory.q[2]

    balance = step_balance(robot, h, GRAVITY)
    torque = np.zeros(robot.nv)
    torque[robot.actuated_dofs] = tau
    rows = sum(joint.kind.rows for joint in robot.joints)

    def node(q, near=None):
        state = robot.to_maximal(q)
        quat = state.quat_WB_xyzw
        if near is not None:
            quat = quat * np.sign((quat * near).sum(axis=1))[:, None]
        return state.p_WB.T, quat

    def parts(q_left, q_right):
        x0, quat0 = node(q_left)
        x1, quat1 = node(q_right, quat0)
        wrenches = np.zeros((6, len(robot.bodies)))
        return [
            part.full().ravel()
            for part in balance(x0, quat0.T, x1, quat1.T, torque, wrenches, np.zeros(rows))
        ]

    arriving = parts(q0, q1)[1]  # D2 L_d and half of the forces of the first interval
    P = body_jacobian(robot, q1)

    def residual(u):
        leaving = parts(q1, pin.integrate(robot.model, q1, u))[0]
        return P.T @ (leaving - arriving)

    u = pin.difference(robot.model, q0, q1)  # the first interval's motion as a guess
    for _ in range(10):
        r = residual(u)
        if np.abs(r).max() < 1e-13:
            break
        columns = [(residual(u + 1e-6 * e) - residual(u - 1e-6 * e)) / 2e-6 for e in np.eye(len(u))]
        u = u - np.linalg.solve(np.array(columns).T, r)
    other = pin.integrate(robot.model, q1, u)
    assert np.abs(pin.difference(robot.model, other, q2)).max() < 1e-9
    assert np.abs(u).max() > 1e-3
