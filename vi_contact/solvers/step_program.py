"""One step as a program for IPOPT: what goes in, what the variables start from, what comes out."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from vi_contact.mechanics import time_stepping
from vi_contact.mechanics.discrete_lagrangian import row_count
from vi_contact.mechanics.ground import Ground
from vi_contact.mechanics.time_stepping import POSE, WRENCH, Block, Scales, joint_bodies
from vi_contact.robot.maximal import MaximalState, rotation_matrices, to_minimal
from vi_contact.robot.parts import WORLD, Array, JointKind, perpendicular_basis
from vi_contact.robot.robot import Robot
from vi_contact.solvers.program import Group, Member, Program


# ------------------------------------------------------------------------- functions of a robot
class Functions:
    """The CasADi functions of a robot; those of contacts and limits are built when first needed."""

    def __init__(self, robot: Robot) -> None:
        self._joints = robot.joints
        self._blocks = {("robot", 0): time_stepping.robot_block(robot)}
        self._groups: dict[tuple[str, int, int], Group] = {}
        self.start_momentum = time_stepping.start_momentum(robot)
        self.end_of_step = time_stepping.end_of_step(robot)

    def group(self, kind: str, index: int = 0, count: int = 1) -> Group:
        """The "robot", `count` "rough" or "smooth" contacts, a joint's "limit" or "friction"."""
        key = (kind, index, count)
        if key not in self._groups:
            self._groups[key] = Group(self._block(kind, index), count)
        return self._groups[key]

    def _block(self, kind: str, index: int) -> Block:
        if (kind, index) not in self._blocks:
            self._blocks[kind, index] = {
                "rough": lambda: time_stepping.contact_block(rough=True),
                "smooth": lambda: time_stepping.contact_block(rough=False),
                "limit": lambda: time_stepping.limit_block(self._joints[index]),
                "friction": lambda: time_stepping.joint_friction_block(self._joints[index]),
            }[kind]()
        return self._blocks[kind, index]


_built: weakref.WeakKeyDictionary[Robot, Functions] = weakref.WeakKeyDictionary()


def functions_of(robot: Robot) -> Functions:
    """Built once per robot; time step, gravity, ground and tolerances are parameters."""
    if robot not in _built:
        _built[robot] = Functions(robot)
    return _built[robot]


# ------------------------------------------------------------------------- what a step knows
class Memory:
    """What is carried from node to node, as views of one array of numbers."""

    def __init__(self, robot: Robot, contacts: int) -> None:
        n, joints = len(robot.bodies), len(robot.joints)
        shapes = {
            "q": (robot.nq,),
            "poses": (n, POSE),
            "momentum": (n, WRENCH),
            "velocities": (n, WRENCH),
            "coordinates": (joints,),
            "spins": (joints,),
            "multipliers": (row_count(robot),),
            "contacts": (contacts, 5),
            "limits": (joints, 2),
            "friction": (joints, 3),
        }
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        self.numbers = np.zeros(sum(sizes))
        parts = np.split(self.numbers, np.cumsum(sizes)[:-1])
        views = (part.reshape(shape) for part, shape in zip(parts, shapes.values(), strict=True))
        self.q = next(views)
        """(nq,) as in pinocchio."""
        self.poses = next(views)
        """(n, 7) position and quaternion of each body."""
        self.momentum = next(views)
        """(n, 6) world axes, body axes."""
        self.velocities = next(views)
        """(n, 6) means of the last step."""
        self.coordinates = next(views)
        """(joints,) of those with one coordinate; angles with their full turns."""
        self.spins = next(views)
        """(joints,) speeds of wheels over the last step [rad/s]; zero for all other joints."""
        self.multipliers = next(views)
        """Forces of the rows over the last step."""
        self.contacts = next(views)
        """(contacts, 5): normal force and e of the last step; slip left over of a sticking one."""
        self.limits = next(views)
        """(joints, 2) forces of the lower and the upper limit."""
        self.friction = next(views)
        """(joints, 3): e of the last step, increment left over, whether it has acted."""

    def guess(self, h: float) -> Array:
        """(n, 7) poses after a step at the velocities of the last one."""
        u, a = 0.5 * h * self.velocities[:, 3:], self.poses[:, 3:]
        half = np.linalg.norm(u, axis=1, keepdims=True)
        s = np.sqrt(np.maximum(0.0, 1.0 - half * half))
        far = half > 1.0  # a wheel at the start
        s = np.where(far, np.cos(half), s)
        u = np.where(far, np.sin(half) / np.where(far, half, 1.0), 1.0) * u
        vector = a[:, 3:] * u + s * a[:, :3] + np.cross(a[:, :3], u)
        scalar = a[:, 3:] * s - (a[:, :3] * u).sum(axis=1, keepdims=True)
        return np.hstack([self.poses[:, :3] + h * self.velocities[:, :3], vector, scalar])


@dataclass(frozen=True)
class Inputs:
    """What acts during a step."""

    h: float
    gravity: Array
    drives: Array
    """(nv, 8), see `time_stepping.DRIVE`."""
    wrenches: Array
    """(n, 6)."""
    springs: Array
    """(rows, 5), see `mechanics.springs.RULE`."""
    targets: Array
    """(contacts,) gap that a contact must reach, above zero after a bounce [m]."""
    bounds: Array
    """(joints,) largest impulses of joint friction."""


class Points:
    """The contacts of a robot and the plane that they may touch, as arrays."""

    def __init__(self, robot: Robot, ground: Ground | None) -> None:
        contacts = robot.contacts if ground is not None else ()
        self.count = len(contacts)
        self.bodies = np.array([contact.body for contact in contacts], dtype=np.intp)
        self.p_BC = np.array([contact.p_BC for contact in contacts]).reshape(-1, 3)
        self.radius = np.array([contact.radius for contact in contacts])
        own = [0.0 if ground is None else ground.friction if c.friction is None else c.friction
               for c in contacts]  # fmt: skip
        self.mu = np.array(own)
        carried = carried_masses(robot)[self.bodies]
        self.mass = np.sqrt(carried * robot.mass)
        """(contacts,) an order of magnitude of what a contact moves [kg]: between what its body
        carries and the whole robot."""
        self.normal = np.array([0.0, 0.0, 1.0]) if ground is None else ground.unit_normal
        self.tangents = np.stack(perpendicular_basis(self.normal))
        self.height = 0.0 if ground is None else ground.height

    def centres(self, poses: Array) -> Array:
        """(contacts, 3) in the world."""
        turned: Array = np.einsum(
            "kij,kj->ki", rotation_matrices(poses[self.bodies, 3:]), self.p_BC
        )
        return poses[self.bodies, :3] + turned

    def gaps(self, poses: Array) -> Array:
        """(contacts,) distances to the plane."""
        return self.centres(poses) @ self.normal - self.height - self.radius

    def slips(self, before: Array, after: Array) -> Array:
        """(contacts, 2) displacements along the tangents, rolling included."""
        moved = self.centres(after) - self.centres(before)
        turn = np.einsum("nij,nj->ni", rotation_matrices(before[:, 3:]), turns(before, after))
        rolled = 2.0 * self.radius[:, None] * np.cross(turn[self.bodies], self.normal)
        return (moved - rolled) @ self.tangents.T


@dataclass
class Selection:
    """Which contacts and limits are in the program."""

    contacts: set[int]
    limits: set[tuple[int, int]]
    """Joint, and 0 for its lower or 1 for its upper limit."""

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Equal for equal selections."""
        return tuple(sorted(self.contacts)), tuple(sorted(self.limits))


@dataclass(frozen=True)
class Solution:
    """A step as IPOPT leaves it, in SI units."""

    poses: Array
    q: Array
    """(nq,) of these poses, near the configuration before."""
    residual: Array
    """(n, 6) what is left of the balance of momentum."""
    multipliers: Array
    contacts: dict[int, Array]
    """Normal impulse, e (2)."""
    limits: dict[tuple[int, int], float]
    """Impulses."""
    closed: set[int | tuple[int, int]]
    """Contacts and limits whose impulse is larger than their gap; IPOPT leaves some to others."""
    friction: dict[int, float]
    """e of each joint with friction."""


# ------------------------------------------------------------------------- the program
class StepProgram:
    """The program of steps with given contacts and limits; parameters are set for each step."""

    def __init__(
        self,
        robot: Robot,
        points: Points,
        rubbing: list[int],
        selection: Selection,
        regularisation: float,
    ) -> None:
        functions = functions_of(robot)
        self._robot, self._points = robot, points
        self._inertias = joint_inertias(robot)
        count = len(robot.bodies)
        self.program = Program(count)
        self._base = self.program.add(functions.group("robot"), np.arange(count)[None])
        contacts, limits = selection.key
        self._contacts: list[tuple[Member, list[int]]] = []
        for kind, rough in (("rough", True), ("smooth", False)):
            chosen = [k for k in contacts if (points.mu[k] > 0.0) == rough]
            if chosen:
                group = functions.group(kind, 0, len(chosen))
                member = self.program.add(group, points.bodies[chosen][:, None])
                self._contacts.append((member, chosen))
        self._limits = [(self._add_joint(functions, "limit", i), (i, side)) for i, side in limits]
        self._friction = [(self._add_joint(functions, "friction", i), i) for i in rubbing]
        joints = [member for member, _ in (*self._limits, *self._friction)]
        forces = [self._base.own, *(member.own[:, :1] for member in joints)]
        for member, _ in self._contacts:
            forces += [member.own[:, :1], member.own[:, 2:4]]  # n and e
        self.program.close(np.concatenate([part.ravel() for part in forces]), regularisation)

    def _add_joint(self, functions: Functions, kind: str, i: int) -> Member:
        bodies = np.array(joint_bodies(self._robot.joints[i]))
        return self.program.add(functions.group(kind, i), bodies[None])

    def prepare(self, memory: Memory, inputs: Inputs, scales: Scales) -> None:
        """Sets the parameters of a step."""
        self._memory, self._scales = memory, scales
        self._h = inputs.h
        joints, points = self._robot.joints, self._points
        self._base.parameters = np.concatenate(
            [
                scales.numbers, memory.poses.ravel(), inputs.gravity, memory.momentum.ravel(),
                inputs.drives.ravel(), inputs.wrenches.ravel(), memory.coordinates,
                inputs.h * memory.spins, inputs.springs.ravel(),
            ]
        )[None]  # fmt: skip
        plane = [*points.normal, points.height]
        units = points.mass * scales.length / inputs.h
        self._units = units
        self._joint_units = self._inertias * scales.length / inputs.h
        for member, k in self._contacts:
            count = len(k)
            member.parameters = np.hstack(
                [
                    np.tile(scales.numbers, (count, 1)), memory.poses[points.bodies[k]],
                    points.p_BC[k], points.radius[k, None], points.mu[k, None],
                    np.tile([*plane, *points.tangents.ravel()], (count, 1)),
                    memory.contacts[k, 3:], inputs.targets[k, None], units[k, None],
                ]
            )  # fmt: skip
        for member, (i, side) in self._limits:
            limit, sign = ((joints[i].lower[0], 1.0), (joints[i].upper[0], -1.0))[side]
            values = memory.coordinates[i], limit, sign, self._joint_units[i]
            member.parameters = self._joint_parameters(i, *values)
        for member, i in self._friction:
            member.parameters = self._joint_parameters(i, inputs.bounds[i], memory.friction[i, 1])

    def _joint_parameters(self, i: int, *values: float) -> Array:
        poses = self._memory.poses[joint_bodies(self._robot.joints[i])].ravel()
        return np.concatenate([self._scales.numbers, poses, values])[None]

    # -------------------------------------------------------------------- variables
    def start(self, poses: Array, warm: bool) -> Array:
        """(size,) first guess: poses at the end, forces of the last step or of the order one."""
        scales, memory = self._scales, self._memory
        z = np.zeros(self.program.size)
        z[: poses.size] = (poses - memory.poses).ravel() / scales.length
        if warm:
            z[self._base.own[0]] = memory.multipliers * (self._h / scales.impulse)
        gaps = np.maximum(self._points.gaps(poses), 0.0) / scales.length
        usual = 0.1 if warm else 1.0
        for member, k in self._contacts:
            own = np.full((len(k), member.group.block.own), usual)
            own[:, 0] = usual / (1.0 + gaps[k])
            own[:, 2:4] = 0.0
            if warm:
                last = memory.contacts[k, 0] * self._h / self._units[k]
                own[:, 0] = np.maximum(last, own[:, 0])
                own[:, 2:4] = 0.9 * memory.contacts[k, 1 : min(own.shape[1] - 1, 3)]
            z[member.own] = own
        for member, (i, side) in self._limits:
            joint, x = self._robot.joints[i], memory.coordinates[i]
            gap = max(0.0, (x - joint.lower[0], joint.upper[0] - x)[side]) / scales.length
            n = memory.limits[i, side] * self._h / self._joint_units[i] if warm else 0.0
            z[member.own[0]] = [max(n, usual / (1.0 + gap)), usual]
        for member, i in self._friction:
            z[member.own[0]] = [0.9 * memory.friction[i, 0] if warm else 0.0, usual, usual]
        return z

    def errors(self, z: Array, rows: Array) -> tuple[float, float]:
        """Largest violation of a row, and largest slack; infinite where a number is not finite."""
        program = self.program
        if not (np.isfinite(z).all() and np.isfinite(rows).all()):
            return np.inf, np.inf
        broken = np.maximum(-rows, rows - program.upper_rows)
        return float(broken.max()), float(z[program.cost > 0.0].max(initial=0.0))

    def solution(self, z: Array, rows: Array) -> Solution:
        """In SI units."""
        scales, memory = self._scales, self._memory
        count = len(memory.poses)
        poses = memory.poses + scales.length * z[: POSE * count].reshape(count, POSE)
        poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        contacts: dict[int, Array] = {}
        limits: dict[tuple[int, int], float] = {}
        closed: set[int | tuple[int, int]] = set()
        for member, chosen in self._contacts:
            gaps = rows[member.own_rows[:, member.group.block.gap]]
            for k, own, gap in zip(chosen, z[member.own], gaps, strict=True):
                e = own[2:4] if len(own) > 2 else np.zeros(2)
                contacts[k] = np.array([own[0] * self._units[k], *e])
                closed |= {k} if own[0] > gap else set()
        for member, key in self._limits:
            n = z[member.own[0, 0]]
            limits[key] = float(n * self._joint_units[key[0]])
            closed |= {key} if n > rows[member.own_rows[0, 0]] else set()
        still = np.zeros((count, 3))
        state = MaximalState(poses[:, :3], poses[:, 3:], still, still)
        near = memory.q.copy()
        for wheel in self._robot.wheels:
            joint = self._robot.joints[wheel.joint]
            near[joint.idx_q] += 0.0 if joint.continuous else self._h * memory.spins[wheel.joint]
        return Solution(
            poses,
            to_minimal(self._robot.bodies, self._robot.joints, state, near)[0],
            rows[: WRENCH * count].reshape(count, WRENCH) * scales.impulse,
            z[self._base.own[0]] * scales.impulse,
            contacts,
            limits,
            closed,
            {i: float(z[member.own[0, 0]]) for member, i in self._friction},
        )


# ------------------------------------------------------------------------- orders of magnitude
def carried_masses(robot: Robot) -> Array:
    """(n,) mass of each body with all that it carries in the tree, not zero [kg]."""
    carried = np.array([body.mass for body in robot.bodies])
    for i in reversed(range(len(robot.bodies))):
        if robot.joints[i].parent != WORLD:
            carried[robot.joints[i].parent] += carried[i]
    return np.maximum(carried, 1e-6 * max(robot.mass, 1e-6))


def joint_inertias(robot: Robot) -> Array:
    """(joints,) an order of magnitude of what a limit moves [kg m2 or kg].

    Between what the joint carries, in the neutral configuration, and the whole robot in its place.
    """
    x = robot.to_maximal(robot.neutral()).p_WB
    inertias = np.zeros(len(robot.joints))
    for j, body in enumerate(robot.bodies):
        i = j
        while i != WORLD:
            lever = x[j] - x[robot.joints[i].child]
            turning = body.mass * (lever @ lever) + np.trace(body.inertia) / 3.0
            sliding = robot.joints[i].kind is JointKind.PRISMATIC
            inertias[i] += body.mass if sliding else turning
            i = robot.joints[i].parent
    inertias += [joint.armature[0] if joint.nv == 1 else 0.0 for joint in robot.joints]
    inertias *= np.sqrt(robot.mass / carried_masses(robot))
    return np.maximum(inertias, 1e-9 * max(robot.mass, 1e-6))


# ------------------------------------------------------------------------- rotations
def turns(before: Array, after: Array) -> Array:
    """(n, 3) vector parts of conj(Q0) Q1, the nearer of the two, for poses (n, 7)."""
    a, b = before[:, 3:], after[:, 3:]
    vector = a[:, 3:] * b[:, :3] - b[:, 3:] * a[:, :3] - np.cross(a[:, :3], b[:, :3])
    scalar = (a * b).sum(axis=1, keepdims=True)
    return np.where(scalar >= 0.0, vector, -vector)


def full_turns(angle: float) -> float:
    """The full turns nearest to an angle [rad]."""
    return float(2.0 * np.pi * np.round(angle / (2.0 * np.pi)))
