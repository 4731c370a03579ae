"""What a robot is made of, as plain immutable records.

Body frames have their origin at the body's centre of mass and the axes of the pinocchio joint
that carries the body. Body index -1 is the world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NoReturn, TypeVar

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from vi_contact.errors import ImmutableError

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Numbers = TypeVar("Numbers", bound=np.ndarray[Any, Any])
Kind = TypeVar("Kind")
WORLD = -1


def read_only(array: Numbers) -> Numbers:
    """The same array, locked."""
    array.flags.writeable = False
    return array


def immutable(advice: str) -> Callable[[type[Kind]], type[Kind]]:
    """Of a frozen dataclass: assigning to a field is an ImmutableError that says what to do.

    `advice` may name the field and the value: {name}, {value}.
    """

    def decorate(kind: type[Kind]) -> type[Kind]:
        def refuse(self: object, name: str, value: object = ...) -> NoReturn:
            words = advice.format(name=name, value=shown(value))
            raise ImmutableError(f"{kind.__name__} is immutable: {name} cannot be set; {words}")

        for call in ("__setattr__", "__delattr__"):
            setattr(kind, call, refuse)
        return kind

    return decorate


def setting(argument: str) -> Callable[[type[Kind]], type[Kind]]:
    """`immutable` of what a simulator takes as that argument."""
    changed = f"dataclasses.replace(sim.{argument}, {{name}}={{value}})"
    return immutable(f"make another simulator by vc.Simulator(robot, ..., {argument}={changed})")


def shown(value: object) -> str:
    """A value as it would be written, or ... if that is long."""
    text = "..." if value is ... else repr(value)
    return text if len(text) <= 40 and "\n" not in text and not text.startswith("<") else "..."


OF_THE_FILE = "change the file, or the model that goes into vc.from_pinocchio"
BY_WITH_PARTS = (
    "make another one by dataclasses.replace(part, {name}={value}), and a robot that has it by "
    "robot.with_parts(loops=, motors=, springs=)"
)


def perpendicular_basis(axis: Array) -> tuple[Array, Array]:
    """Two unit vectors that complete a unit axis to a right-handed orthonormal basis."""
    n1 = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    n1 = n1 / np.linalg.norm(n1)
    return n1, np.cross(axis, n1)


class JointKind(IntEnum):
    """Kinds of joints and loop joints; the value is the code the compiled step uses."""

    FLOATING = 0
    REVOLUTE = 1
    PRISMATIC = 2
    FIXED = 3
    SPHERICAL = 4
    PLANAR = 5
    UNIVERSAL = 6
    GLIDING = 7
    """A point that stays in a plane: a foot that slips."""

    @property
    def rows(self) -> int:
        """Number of scalar constraints between the two bodies."""
        return (0, 5, 5, 6, 3, 3, 4, 1)[self]


class Record:
    """Makes the arrays of a dataclass read-only, as the rest of it is."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                read_only(value)

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """numpy forgets in a pickle that an array was read-only."""
        vars(self).update(fields)
        Record.__post_init__(self)


@immutable(OF_THE_FILE)
@dataclass(frozen=True)
class Pose(Record):
    """Position and orientation of a frame in another: `p` (3,) [m], `quat_xyzw` (4,)."""

    p: Array
    quat_xyzw: Array

    @staticmethod
    def from_se3(placement: pin.SE3) -> Pose:
        return Pose(
            placement.translation.copy(), pin.Quaternion(placement.rotation).coeffs().copy()
        )

    @property
    def vector(self) -> Array:
        """(7,): position, then quaternion x y z w."""
        return read_only(np.concatenate([self.p, self.quat_xyzw]))


@immutable(OF_THE_FILE)
@dataclass(frozen=True)
class Body(Record):
    """A rigid body: a pinocchio joint with all links fixed to it."""

    name: str
    """The link that moves with the joint."""
    links: tuple[str, ...]
    """Every link merged into this body, `name` first."""
    mass: float
    """[kg]; may be zero for a link inside the tree whose subtree has mass."""
    com: Array
    """(3,) centre of mass in the joint's frame [m]."""
    inertia: Array
    """(3, 3) about the centre of mass, in the axes of the joint's frame [kg m2]."""


@dataclass(frozen=True)
class Connection(Record):
    """Two bodies held together: frame F, fixed on the parent, meets G, fixed on the child."""

    name: str
    kind: JointKind
    parent: int
    """Body index, or -1 for the world."""
    child: int
    frame_parent: Pose
    """F in the parent's body frame."""
    frame_child: Pose
    """G in the child's body frame."""
    axis: Array
    """(3,) unit vector, the same components in F and G: rotation, translation, plane normal."""
    axis2: Array
    """(3,) second axis of a universal joint, in G."""


@immutable(OF_THE_FILE)
@dataclass(frozen=True)
class Joint(Connection):
    """A joint of the tree; joint i carries body i and is pinocchio's joint i + 1."""

    idx_q: int
    nq: int
    idx_v: int
    nv: int
    lower: Array
    """(nv,) [m or rad], -inf where there is none."""
    upper: Array
    effort: Array
    """(nv,) largest torque or force [N m or N], inf where there is none."""
    velocity: Array
    """(nv,) largest speed [rad/s or m/s], inf where there is none."""
    damping: Array
    """(nv,) viscous [N m s/rad or N s/m]."""
    friction: Array
    """(nv,) Coulomb [N m or N]."""
    armature: Array
    """(nv,) reflected rotor inertia, gear squared times the rotor's [kg m2 or kg]."""
    continuous: bool
    """A revolute joint without limits that pinocchio stores as cosine and sine."""
    actuated: bool


@immutable(BY_WITH_PARTS)
@dataclass(frozen=True)
class Loop(Connection):
    """A loop joint: closes a cycle that the tree leaves open."""

    links: tuple[str, str]


@immutable(OF_THE_FILE)
@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: q = multiplier q_source + offset (both with one coordinate)."""

    joint: int
    source: int
    multiplier: float
    offset: float


@immutable(BY_WITH_PARTS)
@dataclass(frozen=True)
class Motor:
    """An electric motor with gear on a joint; limits that are not given are infinite."""

    joint: int
    torque_constant: float
    """[N m/A] at the rotor."""
    resistance: float
    """[ohm]."""
    voltage: float
    """[V]."""
    current_limit: float
    """[A]."""
    gear_ratio: float
    """Rotor turns per joint turn."""
    rotor_inertia: float
    """[kg m2] at the rotor."""

    @property
    def limits(self) -> tuple[float, float, float]:
        """At the joint: torque at full voltage and rest, its fall with speed, the current's limit.

        At rotor speed w the voltage allows (+-V kt - kt^2 w) / R, the current kt i_max; with gear g
        the joint has g times the torque at 1/g of the speed.
        """
        constant = self.gear_ratio * self.torque_constant
        peak = constant * self.current_limit
        if not (np.isfinite(self.voltage) and self.resistance > 0.0):
            return np.inf, 0.0, peak
        return constant * self.voltage / self.resistance, constant**2 / self.resistance, peak

    @property
    def no_load_speed(self) -> float:
        """Of the joint, at which full voltage gives no torque; inf without a voltage [rad/s]."""
        stall, slope, _ = self.limits
        return stall / slope if slope > 0.0 else np.inf


@immutable(BY_WITH_PARTS)
@dataclass(frozen=True)
class Spring(Record):
    """A linear spring and damper between two points."""

    name: str
    body_1: int
    p_1: Array
    """(3,) in the frame of body 1 [m]."""
    body_2: int
    p_2: Array
    stiffness: float
    """[N/m]."""
    rest_length: float
    """[m]."""
    damping: float
    """[N s/m]."""


@immutable(OF_THE_FILE)
@dataclass(frozen=True)
class Contact(Record):
    """A small sphere on a body that may touch the ground."""

    name: str
    body: int
    link: str
    p_BC: Array
    """(3,) its centre in the body frame [m]."""
    radius: float
    """[m]; zero for a point."""
    friction: float | None
    """Coefficient, None for the ground's."""
    source: str
    """Where it comes from: "declared", or the collision shape."""
