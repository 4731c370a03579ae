"""The robot: constant description, in minimal (pinocchio) and maximal coordinates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from vi_contact.errors import (
    ArgumentError,
    ArrayError,
    ImmutableError,
    JointNotFoundError,
    LinkNotFoundError,
    ModelChangedError,
    PlacementError,
    RobotSizeError,
)
from vi_contact.robot import closure, maximal
from vi_contact.robot.changes import model_changes
from vi_contact.robot.closure import Mobility
from vi_contact.robot.gyration import gyration_findings
from vi_contact.robot.maximal import MaximalState, check_array, is_number
from vi_contact.robot.parts import (
    WORLD,
    Array,
    Body,
    Contact,
    Indices,
    Joint,
    JointKind,
    Loop,
    Mimic,
    Motor,
    Spring,
    read_only,
)
from vi_contact.robot.report import Finding, ImportReport, Outcome, drive_findings
from vi_contact.robot.shapes import Collider, MissingMesh
from vi_contact.robot.wheels import Wheel, find_wheels

Geometry = Callable[[], "pin.GeometryModel | None"]
LARGE_MEMORY = 16e9
"""Memory taken for granted where the system does not tell [bytes]."""

SMALLEST_LIFT = 1e-3
"""Way along the ground's normal per way of the base: on a slide beside a wall it gets nowhere."""

ContactSource = Callable[["Robot"], tuple[tuple[Contact, ...], tuple[Finding, ...]]]


def no_geometry() -> None:
    """Of a robot without shapes."""


class Robot:
    """A robot loaded from a URDF or a pinocchio model; immutable.

    Made by `load_robot` and `from_pinocchio`. Meshes are read when contacts, pictures or the
    report are first asked for.
    """

    def __init__(
        self,
        name: str,
        model: pin.Model,
        bodies: tuple[Body, ...],
        joints: tuple[Joint, ...],
        loops: tuple[Loop, ...] = (),
        mimics: tuple[Mimic, ...] = (),
        motors: tuple[Motor, ...] = (),
        springs: tuple[Spring, ...] = (),
        findings: tuple[Finding, ...] = (),
        contact_source: ContactSource | None = None,
        collision: Geometry = no_geometry,
        visual: Geometry = no_geometry,
        late_findings: Callable[[], Sequence[Finding]] = tuple,
        file: str = "",
        path: str = "",
        friction: Mapping[str, float] | None = None,
        missing: Callable[[], tuple[MissingMesh, ...]] = tuple,
        loaded: pin.Model | None = None,
        colliders: Callable[[], tuple[Collider, ...]] = tuple,
    ) -> None:
        self.name = name
        self.file = file
        """Name of the file it was loaded from, if any."""
        self.path = path
        """The whole path of that file."""
        self.friction = MappingProxyType(dict(friction or {}))
        """Coulomb's coefficient of the links that give one."""
        self.model = model
        """pinocchio's, for its algorithms; a change of it is an error, see `check_model`."""
        self._loaded = model.copy() if loaded is None else loaded
        self.bodies = bodies
        self.joints = joints
        self.loops = loops
        self.mimics = mimics
        self.motors = motors
        self.springs = springs
        self._findings = findings
        self._contact_source = contact_source
        self._collision = collision
        self._visual = visual
        self._late_findings = late_findings
        self._missing = missing
        self._colliders = colliders
        self._made = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_made" in vars(self):
            raise ImmutableError(
                f"robot '{self.name}' is immutable: {name} cannot be set. robot.with_parts gives "
                "one with other loops, motors or springs; for all else change the file, or the "
                "model that goes into vc.from_pinocchio"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return (
            f"Robot('{self.name}', {len(self.bodies)} bodies, nq={self.nq}, nv={self.nv}, "
            f"nu={self.nu}, {len(self.loops)} loops, {self.mass:.4g} kg)"
        )

    def __getstate__(self) -> dict[str, object]:
        """All but work space and pictures, which the other process reads for itself."""
        self.check_model()
        left_out = ("data", "collision_model", "visual_model", "colliders", "_loaded")
        state = {name: value for name, value in vars(self).items() if name not in left_out}
        return state | {"friction": dict(self.friction)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        vars(self)["friction"] = MappingProxyType(state["friction"])
        vars(self)["_loaded"] = self.model.copy()
        for name, value in state.items():
            if isinstance(value, np.ndarray) and not name.startswith("_"):
                read_only(value)  # which numpy forgets in a pickle

    def check_model(self) -> None:
        """ModelChangedError if `model` is not what it was when the robot was made.

        pinocchio's models can be changed, but a robot is made of one once. Simulators call this
        when they are made, reset and run, and so do the report, `with_parts` and pickling.
        """
        changes = model_changes(self.model, self._loaded)
        if changes:
            raise ModelChangedError(self.name, changes)

    def with_parts(
        self,
        loops: tuple[Loop, ...] | None = None,
        motors: tuple[Motor, ...] | None = None,
        springs: tuple[Spring, ...] | None = None,
    ) -> Robot:
        """The same robot with other loops, motors or springs; `springs=()` leaves them out."""
        self.check_model()
        return Robot(
            self.name,
            self.model,
            self.bodies,
            self.joints,
            self.loops if loops is None else loops,
            self.mimics,
            self.motors if motors is None else motors,
            self.springs if springs is None else springs,
            self._findings,
            self._contact_source,
            self._collision,
            self._visual,
            self._late_findings,
            self.file,
            self.path,
            self.friction,
            self._missing,
            self._loaded,
            self._colliders,
        )

    # ------------------------------------------------------------ sizes and names
    @property
    def nq(self) -> int:
        """Number of configuration coordinates, as in pinocchio."""
        return int(self.model.nq)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates, as in pinocchio."""
        return int(self.model.nv)

    @property
    def nu(self) -> int:
        """Number of inputs: one per actuated velocity coordinate (three for a spherical joint)."""
        return len(self.actuated_dofs)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def actuated_joints(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints if joint.actuated)

    @cached_property
    def actuated_dofs(self) -> Indices:
        """(nu,) index in v of every input."""
        dofs = [
            np.arange(joint.idx_v, joint.idx_v + joint.nv)
            for joint in self.joints
            if joint.actuated
        ]
        return read_only(np.concatenate(dofs) if dofs else np.zeros(0, dtype=int))

    @cached_property
    def base_dofs(self) -> Indices:
        """Indices in v of a free base; empty for a fixed one."""
        base = self.joints[0] if self.joints else None
        if base is None or base.kind is not JointKind.FLOATING or base.parent != WORLD:
            return read_only(np.zeros(0, dtype=int))
        return read_only(np.arange(base.idx_v, base.idx_v + base.nv))

    @cached_property
    def wheels(self) -> tuple[Wheel, ...]:
        """Bodies that spin about their joint's axis, and may do so as fast as they like."""
        return find_wheels(self.bodies, self.joints, self.loops)

    @cached_property
    def turning_dofs(self) -> NDArray[np.bool_]:
        """(nv,) whether a velocity coordinate is an angular one [rad/s]."""
        turning = np.ones(self.nv, dtype=bool)
        slides = {JointKind.PRISMATIC: 1, JointKind.PLANAR: 2, JointKind.FLOATING: 3}
        for joint in self.joints:
            turning[joint.idx_v : joint.idx_v + slides.get(joint.kind, 0)] = False
        return read_only(turning)

    @cached_property
    def data(self) -> pin.Data:
        """Work space of the kinematics; not state. Large: 64 nv^3 bytes."""
        return self.model.createData()

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """Every link, those merged into a body or fixed to the world included."""
        return tuple(f.name for f in self.model.frames if f.type == pin.FrameType.BODY)

    @cached_property
    def mass(self) -> float:
        """Total mass of all links, those fixed to the world included [kg]."""
        return float(sum(inertia.mass for inertia in self.model.inertias))

    def link_placement(self, link: str) -> tuple[int, pin.SE3]:
        """The body that carries a link, and the link's frame in the body frame."""
        if link not in self.link_names:
            raise LinkNotFoundError(link, self.link_names, f"robot '{self.name}'")
        frame = self.model.frames[self.model.getFrameId(link, pin.FrameType.BODY)]
        body = frame.parentJoint - 1
        com = self.bodies[body].com if body != WORLD else np.zeros(3)
        return body, pin.SE3(frame.placement.rotation, frame.placement.translation - com)

    # ------------------------------------------------------------ geometry
    @cached_property
    def collision_model(self) -> pin.GeometryModel | None:
        return self._collision()

    @cached_property
    def visual_model(self) -> pin.GeometryModel | None:
        return self._visual()

    @cached_property
    def colliders(self) -> tuple[Collider, ...]:
        """Collision shapes as contacts see them: meshes as their hulls."""
        return self._colliders()

    @property
    def missing_meshes(self) -> tuple[MissingMesh, ...]:
        """Meshes of the file that were not found, and those that could not be read until now."""
        return self._missing()

    @cached_property
    def _contacts_and_findings(self) -> tuple[tuple[Contact, ...], tuple[Finding, ...]]:
        return self._contact_source(self) if self._contact_source else ((), ())

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """Spheres and points that may touch the ground."""
        return self._contacts_and_findings[0]

    @cached_property
    def contact_names(self) -> tuple[str, ...]:
        return tuple(contact.name for contact in self.contacts)

    @property
    def report(self) -> ImportReport:
        """What was used, approximated and ignored; `print(robot.report)` is a table."""
        self.check_model()
        return self._report

    @cached_property
    def _report(self) -> ImportReport:
        findings = [*self._findings, *self._contacts_and_findings[1], *gyration_findings(self)]
        findings += drive_findings(self)
        beyond = closure.beyond_limits(self, self._neutral)
        if beyond:
            names = ", ".join(self.joints[k].name for k in beyond)
            message = f"the neutral configuration is beyond the limits of {names}"
            findings.append(Finding(Outcome.CHECK, "robot", message, self.file))
        return ImportReport(self, [*findings, *self._late_findings()])

    # ------------------------------------------------------------ configurations
    @cached_property
    def _neutral(self) -> Array:
        q = pin.neutral(self.model)
        for joint in self.joints:
            if joint.nq == 1:
                q[joint.idx_q] = np.clip(q[joint.idx_q], joint.lower[0], joint.upper[0])
        return closure.close_loops(self, q, ()) if self.loops or self.mimics else q

    def neutral(self) -> Array:
        """(nq,) pinocchio's neutral configuration inside the limits with every loop closed."""
        return self._neutral.copy()

    def close_loops(self, q: ArrayLike, fixed: Sequence[str] = ()) -> Array:
        """(nq,) the closed configuration nearest to q with the joints in `fixed` held.

        Nearest is a local minimum of the joint-space distance, reached from q. Raises
        LoopClosureError if no closed configuration is found; one beyond the joint limits is
        returned with a warning in the log if none within them is.
        """
        names = (fixed,) if isinstance(fixed, str) else fixed
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            raise ArgumentError("fixed", fixed, "a list of joint names, or () for none")
        return closure.close_loops(self, self.check_q(q), tuple(names))

    def on_ground(
        self, q: ArrayLike, height: float = 0.0, normal: ArrayLike = (0.0, 0.0, 1.0)
    ) -> Array:
        """(nq,) q with the base lifted or lowered so that the lowest contact touches the ground.

        The ground is z = height, or n.p = height with n the normal (3,) scaled to length one. The
        base is a free one, moved along n, or one on a vertical slide. Raises PlacementError
        otherwise.
        """
        configuration = self.check_q(q)
        if not is_number(height):
            raise ArgumentError("height", height, "a number [m]")
        n = check_array("normal", normal, 3)
        if not n.any():
            raise ArrayError("normal", "is zero; it points out of the ground")
        n /= np.linalg.norm(n)
        way, rate = self._lift(n)
        if rate < SMALLEST_LIFT:
            raise PlacementError(
                f"robot '{self.name}' has neither a free base nor one on a vertical slide; set its "
                "configuration by hand"
            )
        if not self.contacts:
            raise PlacementError(f"robot '{self.name}' has no contacts that could touch the ground")
        state = self.to_maximal(configuration)
        R_WB = maximal.rotation_matrices(state.quat_WB_xyzw)
        lowest = min(
            (state.p_WB[contact.body] + R_WB[contact.body] @ contact.p_BC) @ n - contact.radius
            for contact in self.contacts
        )
        configuration += (height - lowest) / rate * way
        return configuration

    def _lift(self, n: Array) -> tuple[Array, float]:
        """(nq,) how to change q to move all contacts up, and how far along n (3,) that takes them.

        Zero if there is neither a free base nor one on a vertical slide.
        """
        way, base = np.zeros(self.nq), self.joints[0] if self.joints else None
        if base is None or base.parent != WORLD:
            return way, 0.0
        R_WF = maximal.rotation_matrices(base.frame_parent.quat_xyzw)
        if base.kind is JointKind.FLOATING:
            way[base.idx_q : base.idx_q + 3] = R_WF.T @ n
            return way, 1.0
        axis_W = R_WF @ base.axis
        if base.kind is not JointKind.PRISMATIC or abs(axis_W[2]) < 0.999:
            return way, 0.0
        way[base.idx_q] = np.sign(axis_W[2])
        return way, float(np.sign(axis_W[2]) * axis_W @ n)

    def loop_error(self, q: ArrayLike) -> float:
        """Largest error of a loop or mimic joint [m or rad]."""
        return float(np.abs(closure.closure_rows(self, self.check_q(q))[0]).max(initial=0.0))

    @cached_property
    def mobility(self) -> Mobility:
        """Rows and rank of all constraints, and the degrees of freedom left."""
        return closure.mobility(self, self._neutral)

    def joint_position(self, q: Array, joint: int | str) -> float:
        """Angle or travel of a joint with one degree of freedom, by index or name [rad or m]."""
        if isinstance(joint, str):
            if joint not in self.joint_names:
                raise JointNotFoundError(joint, self.joint_names, f"robot '{self.name}'")
            joint = self.joint_names.index(joint)
        part = self.joints[joint]
        if part.nv != 1:
            raise ArgumentError(
                "joint", part.name, f"one with one coordinate, not {part.nv}; read q itself"
            )
        if part.continuous:
            return float(np.arctan2(q[part.idx_q + 1], q[part.idx_q]))
        return float(q[part.idx_q])

    def to_maximal(self, q: ArrayLike, v: ArrayLike | None = None) -> MaximalState:
        """Poses and velocities of every body from q (nq,) and v (nv,), zero if not given."""
        velocity = np.zeros(self.nv) if v is None else self.check_v(v)
        return maximal.to_maximal(self.model, self.data, self.bodies, self.check_q(q), velocity)

    def to_minimal(self, state: MaximalState, near: ArrayLike | None = None) -> tuple[Array, Array]:
        """q (nq,) and v (nv,) of given body poses and velocities.

        Poses do not tell full turns of a revolute joint or the sign of a quaternion: both are
        taken closest to the configuration `near`, the neutral one if not given.
        """
        reference = self._neutral if near is None else self.check_q(near)
        maximal.check_state(state, len(self.bodies))
        return maximal.to_minimal(self.bodies, self.joints, state, reference)

    # ------------------------------------------------------------ arguments
    def check_q(self, q: ArrayLike) -> Array:
        """q as (nq,) finite numbers with unit quaternions and unit cosine-sine pairs."""
        array = check_array("q", q, self.nq)
        for joint in self.joints:
            unit = {JointKind.FLOATING: 4, JointKind.SPHERICAL: 4, JointKind.PLANAR: 2}.get(
                joint.kind, 2 if joint.continuous else 0
            )
            if unit:
                end = joint.idx_q + joint.nq
                norm = np.linalg.norm(array[end - unit : end])
                if abs(norm - 1.0) > 1e-6:
                    what = "quaternion x y z w" if unit == 4 else "cosine and sine"
                    raise ArrayError(
                        "q",
                        f"the {what} of joint '{joint.name}' at q[{end - unit}:{end}] has length "
                        f"{norm:.6g}, not 1; robot.neutral() is a valid configuration",
                    )
        return array

    def check_v(self, v: ArrayLike) -> Array:
        return check_array("v", v, self.nv)


def computer_memory() -> float:
    """[bytes]."""
    try:
        return 1.0 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return LARGE_MEMORY


def check_size(model: pin.Model) -> None:
    """RobotSizeError where this computer has no memory for pinocchio's work space."""
    needed = 64.0 * model.nv**3  # measured: 0.07 GB for 100 joints, 2.1 GB for 320
    memory = computer_memory()
    if needed > memory:
        raise RobotSizeError(
            f"robot '{model.name}' has {model.nv} degrees of freedom: pinocchio's work space takes "
            f"{1e-9 * needed:.1f} GB, growing with their cube, and this computer has "
            f"{1e-9 * memory:.1f} GB; split the robot, or fix joints that need not move"
        )
