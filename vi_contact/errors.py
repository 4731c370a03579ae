"""Everything vi_contact raises: each class one kind of mistake, messages that say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


class ViContactError(Exception):
    """Base of every error raised by vi_contact."""

    def __reduce__(self) -> tuple[object, ...]:
        """Errors pass from one process to another, whatever their constructors take."""
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(
    kind: type[ViContactError], args: tuple[object, ...], fields: dict[str, object]
) -> ViContactError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


def nearest(name: str, known: Iterable[str]) -> str:
    """Words that list what exists, the most similar name first: did you mean 'x'? known: ..."""
    names = [str(item) for item in known]
    if not names:
        return "there are none"
    similar = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return (f"did you mean '{similar[0]}'? " if similar else "") + f"known: {shown}"


# ---------------------------------------------------------------- names and arrays
class NameNotFoundError(ViContactError):
    """A name that the robot does not have; lists those it has."""

    what = "name"

    def __init__(self, name: str, known: Iterable[str], where: str = "") -> None:
        self.name = name
        self.known = tuple(known)
        prefix = f"{where}: " if where else ""
        super().__init__(f"{prefix}no {self.what} '{name}'; {nearest(str(name), self.known)}")


class LinkNotFoundError(NameNotFoundError):
    """No link of that name."""

    what = "link"


class JointNotFoundError(NameNotFoundError):
    """No joint of that name."""

    what = "joint"


class ContactNotFoundError(NameNotFoundError, KeyError):
    """No contact of that name."""

    what = "contact"

    __str__ = Exception.__str__


class ArrayError(ViContactError):
    """An array argument of the wrong shape, or with a value that is not finite."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"argument '{name}': {problem}")


class ArgumentError(ViContactError):
    """An argument of the wrong kind; the message says what it can be."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        shown = " ".join(repr(value).split())
        super().__init__(
            f"{name} is {shown if len(shown) <= 80 else shown[:77] + '...'}; it can be {expected}"
        )


# ---------------------------------------------------------------- robot files
class RobotFileError(ViContactError):
    """A robot description that cannot be used; `path` and `line` say where."""

    def __init__(self, path: Path | str, message: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.line = line
        place = f"{self.path}:{line}" if line else f"{self.path}"
        super().__init__(f"{place}: {message}")


class RobotFileNotFoundError(RobotFileError):
    """Neither a file nor the name of a bundled robot."""


class NotXmlError(RobotFileError):
    """The file is not well-formed XML, or its top element is not <robot>."""


class RobotNameError(RobotFileError):
    """<robot> has no name."""


class TreeError(RobotFileError):
    """Links and joints do not form one tree: two roots, a cycle, two parents, or no link at all."""


class DuplicateNameError(RobotFileError):
    """Two links, joints, loop joints, springs, or contacts of the same name."""


class JointTypeError(RobotFileError):
    """A joint type that URDF, or vi_contact, does not know."""


class InertiaError(RobotFileError):
    """A mass or inertia that no body can have."""


class AxisError(RobotFileError):
    """A joint axis of zero length, or one the joint type cannot have."""


class LimitError(RobotFileError):
    """Joint limits that exclude every position, or are negative where they may not be."""


class MimicError(RobotFileError):
    """A mimic joint that follows an unknown joint, itself, or a circle."""


class MotorError(RobotFileError):
    """A motor on a joint that cannot have one, or with impossible values."""


class ExtensionError(RobotFileError):
    """An unknown tag or attribute in the <vi_contact> block, or a value that cannot be read."""


class UnknownLinkError(RobotFileError):
    """A joint, loop joint, spring, or contact that names a link the file does not have."""


class ValueFormatError(RobotFileError):
    """An attribute that should be a number, or three numbers, and is not; or is missing."""


class PinocchioError(RobotFileError):
    """pinocchio refused a file that passed our own checks; its words are in the message."""


class MeshSizeError(RobotFileError):
    """A mesh file that is too long to be read."""

    def __init__(self, path: Path | str, size: int, largest: int) -> None:
        super().__init__(
            path,
            f"the mesh has {1e-6 * size:.3g} MB, and collision meshes of up to "
            f"{1e-6 * largest:.3g} MB are read; save it with fewer triangles, or name a coarser "
            "mesh, a box or a capsule in <collision>",
        )


class StrictImportError(RobotFileError):
    """Strict import met approximations or ignored physics; `findings` lists them all."""

    def __init__(self, path: Path | str, findings: Sequence[str]) -> None:
        self.findings = tuple(findings)
        listing = "".join(f"\n  - {finding}" for finding in self.findings)
        super().__init__(
            path,
            f"strict import refused {len(self.findings)} finding(s) that change the physics "
            f"(load with strict=False to accept them):{listing}",
        )


# ---------------------------------------------------------------- robots
class ImmutableError(ViContactError, AttributeError):
    """A setting of a robot, state or simulator that somebody tried to change."""


class ModelChangedError(ViContactError):
    """A `robot.model` that was changed after the robot was made; `changes` says what."""

    def __init__(self, robot: str, changes: Sequence[str]) -> None:
        self.changes = tuple(changes)
        super().__init__(
            f"robot '{robot}': robot.model was changed after loading ({'; '.join(changes)}), of "
            "which the robot knows nothing. Change a copy before a robot is made of it: "
            "model = robot.model.copy(), then vc.from_pinocchio(model, robot.collision_model, "
            "robot.visual_model); loops, motors and springs go on by its with_parts(...)"
        )


class UnsupportedJointError(ViContactError):
    """A pinocchio joint model without a maximal-coordinate counterpart here."""


class ModelError(ViContactError):
    """A pinocchio model with masses, inertias or limits that no robot has."""


class RobotSizeError(ViContactError):
    """A robot with more degrees of freedom than pinocchio has memory to work with."""


class PlacementError(ViContactError):
    """A robot that cannot be put on the ground: no contacts, or nothing to lift it by."""


class LoopClosureError(ViContactError):
    """No closed configuration was found; `gaps` maps open loops to their error [m or rad]."""

    def __init__(
        self,
        robot: str,
        gaps: dict[str, float],
        fixed: Sequence[str],
        place: str = "",
        advice: str = "",
    ) -> None:
        self.robot = robot
        self.gaps = dict(gaps)
        self.fixed = tuple(fixed)
        gap_words = ", ".join(f"'{name}' stays open by {gap:.3g}" for name, gap in gaps.items())
        held = f" with {', '.join(self.fixed)} held" if self.fixed else ""
        advice = advice or (
            "hold fewer joints or start nearer to a closed pose"
            if self.fixed
            else "check the loop's points and the link lengths, or start nearer to a closed pose"
        )
        where = f"{place}: " if place else ""
        super().__init__(
            f"{where}robot '{robot}' cannot be closed{held}: {gap_words} [m or rad]; {advice}"
        )


# ---------------------------------------------------------------- simulation
class RunningError(ViContactError):
    """A simulator that is moved while it moves, as by a controller."""


class TimeStepError(ViContactError):
    """A time step, duration or number of steps that no simulation can have."""


class OptionError(ViContactError):
    """A solver option outside its range."""


class OpenLoopError(ViContactError):
    """A start with open loops; `gaps` maps loops and mimic joints to their errors [m or rad]."""

    def __init__(self, robot: str, gaps: dict[str, float]) -> None:
        self.robot = robot
        self.gaps = dict(gaps)
        words = ", ".join(f"'{name}' is open by {gap:.3g}" for name, gap in gaps.items())
        super().__init__(
            f"robot '{robot}': {words} [m or rad]; "
            "start from robot.close_loops(q) or robot.neutral()"
        )


class RotationTooFastError(ViContactError):
    """A body turns farther per step than a step and its halves can follow."""

    def __init__(self, body: str, speed: float, fastest: float, time_step: float) -> None:
        self.body = body
        self.speed = speed
        super().__init__(
            f"body '{body}' turns at {speed:.4g} rad/s, but a time step of {time_step:g} s and its "
            f"halves follow only rotations up to {fastest:.4g} rad/s; "
            f"use a time step below {_round_down(fastest * time_step / speed)} s"
        )


class StepFailedError(ViContactError):
    """A step that did not converge; the simulator's state is still the one before it."""

    def __init__(self, time: float, status: str, residual: float, advice: str) -> None:
        self.time = time
        self.status = status
        self.residual = residual
        super().__init__(
            f"the step at t = {time:.6g} s failed ({status}, momentum residual "
            f"{residual:.3g} N s): {advice}"
        )


class MissingSolverError(ViContactError):
    """A solver whose package is not installed; the message says how to install it."""

    def __init__(self, package: str, reason: str) -> None:
        self.package = package
        super().__init__(
            f"solver='ipopt' needs the package {package} ({reason}): in a clone of vi_contact call "
            "./run setup, which builds it against the IPOPT inside casadi; elsewhere "
            f"conda install -c conda-forge {package}, or install IPOPT and then "
            "pip install 'vi_contact[ipopt]'; solver='newton' needs none of this"
        )


class GroundError(ViContactError):
    """A ground that cannot be: friction below zero, restitution above one, no normal."""


class PenetrationError(ViContactError):
    """A start with a contact below the ground; `contact` and `depth` [m] say which and how far."""

    def __init__(self, robot: str, contact: str, depth: float, advice: str) -> None:
        self.contact = contact
        self.depth = depth
        super().__init__(
            f"robot '{robot}': contact '{contact}' is {depth:.3g} m below the ground; {advice}"
        )


class OverlapError(PenetrationError):
    """A start with bodies inside each other or an obstacle; `contact` names them."""

    def __init__(self, robot: str, contact: str, depth: float) -> None:
        self.contact = contact
        self.depth = depth
        ViContactError.__init__(
            self,
            f"robot '{robot}': {contact.replace('/', ' and ')} are {depth:.3g} m inside each "
            "other; move them apart",
        )


class ObstacleError(ViContactError):
    """An obstacle that cannot be: no size, no shapes, friction below zero."""


class JointLimitError(ViContactError):
    """A start with a joint beyond its limit; `joint` says which."""

    def __init__(
        self, robot: str, joint: str, value: float, lower: float, upper: float, advice: str
    ) -> None:
        self.joint = joint
        self.value = value
        super().__init__(
            f"robot '{robot}': joint '{joint}' starts at {value:.6g}, outside its limits "
            f"{lower:.6g} to {upper:.6g} [rad or m]; {advice}"
        )


class EventError(ViContactError):
    """An event whose guard or reset gives what it may not; `event` and `time` say which."""

    def __init__(self, event: str, time: float, problem: str) -> None:
        self.event = event
        self.time = time
        super().__init__(f"event '{event}' at t = {time:.6g} s: {problem}")


class ZenoError(ViContactError):
    """More events within one time step than can be followed; `time` is when it became too much."""

    def __init__(self, time: float, time_step: float, most: int, names: Sequence[str]) -> None:
        self.time = time
        self.names = tuple(sorted(set(names)))
        super().__init__(
            f"more than {most} events ({', '.join(self.names)}) within the time step of "
            f"{time_step:g} s at t = {time:.9g} s: they seem to follow each other without end; "
            "let a reset leave its guard, or let resting contacts stick (PlasticContact, or None)"
        )


class CopyError(ViContactError):
    """Something that can be neither copied nor pickled; the message says what can be instead."""


class TrajectoryFileError(ViContactError):
    """A file that is not a saved trajectory, or one that cannot be written."""


def _round_down(value: float) -> str:
    """One significant digit, not above the value: 0.0372 gives 0.03."""
    return f"{value * 0.95:.1g}" if float(f"{value:.1g}") > value else f"{value:.1g}"


class TrajectoryRobotError(ViContactError):
    """The robot of a trajectory is not to be found, or is another one."""


class ViewError(ViContactError):
    """Something that cannot be shown, or not any more."""
