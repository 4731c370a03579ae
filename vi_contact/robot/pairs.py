"""Which links meet each other and which obstacles; distances by coal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
from lxml import etree
from numpy.typing import NDArray

from vi_contact.errors import ArgumentError, RobotFileNotFoundError
from vi_contact.robot.convex import Convex, convex_of
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.parts import WORLD, Array, JointKind, Pose, read_only
from vi_contact.robot.robot import Robot

SelfCollision = bool | str | os.PathLike[str]


@dataclass(frozen=True)
class BodyShape:
    """A convex shape on a body, or in the world."""

    owner: str
    """The link or obstacle."""
    body: int
    convex: Convex
    placement: Pose
    """In the frame of the joint that carries the body, or in the world."""
    friction: float | None
    obstacle: bool = False


@dataclass(frozen=True)
class BodyPairs:
    """Pairs of shapes that may touch, and those that were left out."""

    shapes: tuple[BodyShape, ...] = ()
    pairs: tuple[tuple[int, int, float, int], ...] = ()
    """Shapes, friction, and the number of the name; the second is not a link before the first."""
    names: tuple[str, ...] = ()
    """Of the links that meet: "hand/table"."""
    filtered: Mapping[str, str] = field(default_factory=dict)
    """Names of pairs that were left out, with the reason."""
    notes: tuple[str, ...] = ()
    """Shapes that were approximated or left out."""

    def __repr__(self) -> str:
        names = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        left_out = f"; {len(self.filtered)} left out" if self.filtered else ""
        return f"BodyPairs({len(self.names)} may meet: {names or 'none'}{left_out})"

    def __str__(self) -> str:
        lines = [f"{name}: meet" for name in self.names]
        lines += [f"{name}: left out, {reason}" for name, reason in self.filtered.items()]
        return "\n".join([*lines, *self.notes])

    def __bool__(self) -> bool:
        return bool(self.pairs)

    @cached_property
    def bodies(self) -> Array:
        """(P, 2) first and second body of each name; WORLD for an obstacle or a fixed link."""
        bodies = np.empty((len(self.names), 2))
        for a, b, _, name in self.pairs:
            bodies[name] = self.shapes[a].body, self.shapes[b].body
        return read_only(bodies)

    def separator(self) -> Separator:
        """Distances of the pairs."""
        return Separator([(self.shapes[a], self.shapes[b]) for a, b, _, _ in self.pairs])


class Separator:
    """Signed distance, normal and nearest points of pairs of shapes, by coal."""

    def __init__(self, pairs: Sequence[tuple[BodyShape, BodyShape]]) -> None:
        self._pairs = pairs
        self._distances: list[coal.ComputeDistance | None] = [None] * len(pairs)
        self._request = coal.DistanceRequest()
        self._request.enable_signed_distance = True
        self._result = coal.DistanceResult()

    def __call__(self, pair: int, poses: Array) -> list[float]:
        """(10,) distance, normal from first to second, nearest points; from (24,) R, p of both."""
        X_WA = coal.Transform3s(poses[:9].reshape(3, 3), poses[9:12])
        X_WB = coal.Transform3s(poses[12:21].reshape(3, 3), poses[21:])
        result = self._result
        result.clear()
        compute = self._distances[pair]
        if compute is None:  # most pairs never come near
            a, b = self._pairs[pair]
            compute = coal.ComputeDistance(a.convex.geometry, b.convex.geometry)
            self._distances[pair] = compute
        distance = compute(X_WA, X_WB, self._request, result)
        return [
            distance,
            *np.ravel(result.normal).tolist(),
            *np.ravel(result.getNearestPoint1()).tolist(),
            *np.ravel(result.getNearestPoint2()).tolist(),
        ]


def find_pairs(
    robot: Robot,
    obstacles: Sequence[Obstacle],
    self_collision: SelfCollision,
    standard_friction: float,
) -> BodyPairs:
    """All pairs that may touch.

    Every body meets every obstacle. Bodies that no joint connects, because a floating joint from
    the world carries one of them, always meet. Links of one mechanism do if self_collision is on:
    but for neighbours, pairs that overlap in the neutral configuration, and those that the SRDF
    named by self_collision disables.

    A link meets with its own friction if it gives one, else with that of the obstacle or the
    ground; of two that give one the larger counts.
    """
    roots = _roots(robot)
    disabled = _disabled(self_collision)
    if not obstacles and not self_collision and len(_mechanisms(robot, roots)) < 2:
        return BodyPairs()
    notes: list[str] = []
    shapes = _robot_shapes(robot, notes)
    for obstacle in obstacles:
        notes += [f"obstacle '{obstacle.name}': {note}" for note in obstacle.notes]
        for geometry, pose in obstacle.shapes:
            convex = _noted(convex_of(geometry), f"obstacle '{obstacle.name}'", notes)
            if convex is not None:
                shapes.append(
                    BodyShape(obstacle.name, WORLD, convex, pose, obstacle.friction, True)
                )
    neighbours = _neighbours(robot)
    filtered: dict[str, str] = {}
    pairs: list[tuple[int, int, float, int]] = []
    names: dict[str, int] = {}
    overlapping = _NeutralOverlap(robot, shapes)
    for i, first in enumerate(shapes):
        for j in range(i + 1, len(shapes)):
            second = shapes[j]
            if first.body == second.body or (first.obstacle and second.obstacle):
                continue
            a, b = (j, i) if first.body == WORLD else (i, j)
            name = f"{shapes[a].owner}/{shapes[b].owner}"
            apart = second.obstacle or _apart(first.body, second.body, roots)
            if not apart and not self_collision:
                continue
            reason = ""
            if frozenset((first.owner, second.owner)) in disabled:
                reason = "disabled by the SRDF"
            elif not apart and frozenset((first.body, second.body)) in neighbours:
                reason = "neighbours"
            elif not apart and overlapping(i, j):
                reason = "they overlap in the neutral configuration"
            if reason:
                filtered[name] = reason
                continue
            own = [s.friction for s in (first, second) if s.friction is not None and not s.obstacle]
            other = second.friction if second.obstacle else None
            friction = max(own) if own else standard_friction if other is None else other
            pairs.append((a, b, friction, names.setdefault(name, len(names))))
    known = list(names)
    pairs = [pair for pair in pairs if known[pair[3]] not in filtered]
    kept = {name: k for k, name in enumerate(sorted({pair[3] for pair in pairs}))}
    return BodyPairs(
        tuple(shapes),
        tuple((a, b, friction, kept[name]) for a, b, friction, name in pairs),
        tuple(known[name] for name in kept),
        filtered,
        tuple(dict.fromkeys(notes)),
    )


def _robot_shapes(robot: Robot, notes: list[str]) -> list[BodyShape]:
    shapes = []
    known: dict[int, Convex | None] = {}  # links that share a mesh share its hull
    for collider in robot.colliders:
        link, shape = collider.link, collider.shape
        if id(shape) not in known:
            known[id(shape)] = convex_of(shape)
        convex = _noted(known[id(shape)], f"link '{link}'", notes)
        if convex is not None:
            pose = Pose.from_se3(collider.placement)
            shapes.append(BodyShape(link, collider.body, convex, pose, robot.friction.get(link)))
    return shapes


def _noted(convex: Convex | None, owner: str, notes: list[str]) -> Convex | None:
    if convex is None:
        notes.append(f"{owner}: a shape that is flat or not known, left out")
    elif convex.note:
        notes.append(f"{owner}: {convex.note}")
    return convex


def _roots(robot: Robot) -> list[int]:
    """The first body of the tree that each body belongs to."""
    roots: list[int] = []
    for i, joint in enumerate(robot.joints):
        free = joint.kind is JointKind.FLOATING and joint.parent == WORLD
        roots.append(i if free else WORLD if joint.parent == WORLD else roots[joint.parent])
    return roots


def _mechanisms(robot: Robot, roots: list[int]) -> set[int]:
    """Roots of the mechanisms; the world counts if links are fixed to it."""
    frames = robot.model.frames
    fixed = any(f.type == pin.FrameType.BODY and f.parentJoint == 0 for f in frames)
    return {*roots, WORLD} if fixed else set(roots)


def _apart(a: int, b: int, roots: list[int]) -> bool:
    """Whether the two belong to different mechanisms; all that is fixed to the world is one."""
    return (WORLD if a == WORLD else roots[a]) != (WORLD if b == WORLD else roots[b])


def _neighbours(robot: Robot) -> set[frozenset[int]]:
    connections = [*robot.joints, *robot.loops]
    return {frozenset((connection.parent, connection.child)) for connection in connections}


class _NeutralOverlap:
    """Whether two shapes overlap in the neutral configuration."""

    def __init__(self, robot: Robot, shapes: Sequence[BodyShape]) -> None:
        self.robot = robot
        self.shapes = shapes

    @cached_property
    def _placed(self) -> tuple[list[coal.Transform3s], Array, Array]:
        """Poses in the world, and (n, 3) lower and upper corners of the boxes around the shapes."""
        pin.forwardKinematics(self.robot.model, self.robot.data, self.robot.neutral())
        poses, lower, upper = [], [], []
        for shape in self.shapes:
            placement = pin.SE3(pin.Quaternion(shape.placement.quat_xyzw), shape.placement.p)
            X_WS = self.robot.data.oMi[shape.body + 1] * placement
            poses.append(coal.Transform3s(X_WS.rotation, X_WS.translation))
            low, high = shape.convex.box
            middle = X_WS.act(0.5 * (low + high))
            half = np.abs(X_WS.rotation) @ (0.5 * (high - low))
            lower.append(middle - half)
            upper.append(middle + half)
        return poses, np.array(lower), np.array(upper)

    @cached_property
    def _near(self) -> NDArray[np.bool_]:
        """(n, n) whether the boxes meet, a little enlarged: those that do not are far apart."""
        _, lower, upper = self._placed
        slack = 1e-6 * (1.0 + np.abs(lower).max() + np.abs(upper).max())  # far above round-off
        return np.all(lower[:, None] <= upper[None] + slack, axis=2) & np.all(
            lower[None] <= upper[:, None] + slack, axis=2
        )

    def __call__(self, i: int, j: int) -> bool:
        if not self._near[i, j]:
            return False
        poses = self._placed[0]
        result = coal.DistanceResult()
        a, b = self.shapes[i].convex.geometry, self.shapes[j].convex.geometry
        distance = coal.distance(a, poses[i], b, poses[j], coal.DistanceRequest(), result)
        return bool(distance <= 0.0)


def _disabled(self_collision: SelfCollision) -> set[frozenset[str]]:
    """Pairs of links that an SRDF disables."""
    if isinstance(self_collision, bool):
        return set()
    if not isinstance(self_collision, str | os.PathLike):
        raise ArgumentError("self_collision", self_collision, "True, False or an .srdf file")
    file = Path(self_collision)
    if not file.is_file():
        raise RobotFileNotFoundError(file, "there is no such SRDF file")
    try:
        root = etree.parse(str(file)).getroot()
    except etree.XMLSyntaxError as error:
        raise ArgumentError("self_collision", str(file), f"an .srdf file; {error}") from None
    return {
        frozenset((str(tag.get("link1")), str(tag.get("link2"))))
        for tag in root.iter("disable_collisions")
    }
