"""Fixed obstacles that robots meet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from vi_contact.errors import ObstacleError
from vi_contact.robot.contacts import mesh_vertices
from vi_contact.robot.maximal import check_array, is_number
from vi_contact.robot.meshes import Mesh
from vi_contact.robot.parts import Array, Pose, immutable
from vi_contact.robot.urdf import load_robot

SIZES = (3, 1, 2, 2, 0)
"""Of the kinds of shapes in files: box, sphere, capsule, cylinder, mesh."""

MESH = 4

NO_TURN = (0.0, 0.0, 0.0, 1.0)


@immutable("make another simulator by vc.Simulator(robot, obstacles=[vc.Obstacle...])")
@dataclass(frozen=True)
class Obstacle:
    """Shapes that stand still in the world; nothing passes them.

    Made by `box`, `sphere`, `capsule`, `mesh` and `from_urdf`.
    """

    name: str
    shapes: tuple[tuple[coal.CollisionGeometry, Pose], ...]
    """Geometries and their poses in the world."""
    friction: float = 0.8
    """Coulomb's coefficient, for links that do not give their own."""
    notes: tuple[str, ...] = ()
    """What was simplified when it was read."""

    def __post_init__(self) -> None:
        if not (is_number(self.friction) and self.friction >= 0.0):
            raise ObstacleError(
                f"obstacle '{self.name}': its friction is {self.friction}; it must be at least 0"
            )

    @staticmethod
    def box(
        size: ArrayLike,
        position: ArrayLike = (0.0, 0.0, 0.0),
        quat_xyzw: ArrayLike = NO_TURN,
        friction: float = 0.8,
        name: str = "box",
    ) -> Obstacle:
        """A box with edges (3,) [m], its centre at `position` (3,) [m]."""
        edges = _positive(name, "size", check_array("size", size, 3))
        return _single(name, coal.Box(*edges), position, quat_xyzw, friction)

    @staticmethod
    def sphere(
        radius: float,
        position: ArrayLike = (0.0, 0.0, 0.0),
        friction: float = 0.8,
        name: str = "sphere",
    ) -> Obstacle:
        """A ball."""
        (r,) = _positive(name, "radius", [radius])
        return _single(name, coal.Sphere(r), position, NO_TURN, friction)

    @staticmethod
    def capsule(
        radius: float,
        length: float,
        position: ArrayLike = (0.0, 0.0, 0.0),
        quat_xyzw: ArrayLike = NO_TURN,
        friction: float = 0.8,
        name: str = "capsule",
    ) -> Obstacle:
        """A cylinder along z of a length [m] between two half balls."""
        r, between = _positive(name, "radius and length", [radius, length])
        return _single(name, coal.Capsule(r, between), position, quat_xyzw, friction)

    @staticmethod
    def mesh(
        vertices: ArrayLike,
        position: ArrayLike = (0.0, 0.0, 0.0),
        quat_xyzw: ArrayLike = NO_TURN,
        friction: float = 0.8,
        name: str = "mesh",
    ) -> Obstacle:
        """The convex hull of vertices (n, 3) [m]."""
        try:
            points = np.array(vertices, dtype=np.float64)
        except (TypeError, ValueError):
            points = np.zeros(0)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise ObstacleError(
                f"obstacle '{name}': vertices must be finite numbers (n, 3); a mesh file comes in "
                "through a URDF that names it, by Obstacle.from_urdf"
            )
        return _single(name, _points(points), position, quat_xyzw, friction)

    @staticmethod
    def from_urdf(
        path: str | os.PathLike[str],
        position: ArrayLike = (0.0, 0.0, 0.0),
        quat_xyzw: ArrayLike = NO_TURN,
        friction: float = 0.8,
        name: str | None = None,
    ) -> Obstacle:
        """The collision shapes of a URDF in its neutral configuration, its root at `position`."""
        robot = load_robot(path, base="fixed")
        label = name or robot.name
        X_WR = _placement(position, quat_xyzw)
        shapes, notes = [], []
        pin.forwardKinematics(robot.model, robot.data, robot.neutral())
        for collider in robot.colliders:
            X_RS = robot.data.oMi[collider.body + 1] * collider.placement
            shape = collider.shape
            if isinstance(shape, Mesh):
                notes += [shape.simplification] if shape.simplification else []
                shape = _points(shape.points if shape.hull is None else shape.hull.vertices)
            shapes.append((shape, Pose.from_se3(X_WR * X_RS)))
        if not shapes:
            raise ObstacleError(f"obstacle '{label}': {Path(path).name} has no collision shapes")
        return Obstacle(label, tuple(shapes), friction, tuple(notes))


def to_numbers(obstacles: Sequence[Obstacle]) -> dict[str, NDArray[Any]]:
    """Obstacles as arrays, for a file; `from_numbers` reads them.

    Rows: obstacle, kind, three sizes, pose (7,), first vertex and number of vertices of a mesh.
    """
    rows: list[list[float]] = []
    vertices: list[Array] = [np.zeros((0, 3))]
    for k, obstacle in enumerate(obstacles):
        for geometry, pose in obstacle.shapes:
            kind, sizes, points = _describe(geometry)
            first = sum(len(block) for block in vertices)
            rows.append([k, kind, *sizes, *pose.vector, first, len(points)])
            vertices.append(points)
    return {
        "names": np.array([obstacle.name for obstacle in obstacles], dtype=np.str_),
        "frictions": np.array([obstacle.friction for obstacle in obstacles]),
        "shapes": np.array(rows).reshape(-1, 14),
        "vertices": np.concatenate(vertices),
    }


def from_numbers(values: dict[str, NDArray[Any]]) -> tuple[Obstacle, ...]:
    """What `to_numbers` wrote; ObstacleError where arrays, as of a file, cannot be that."""
    problem = _numbers_problem(values)
    if problem:
        raise ObstacleError(f"the obstacles cannot be read: {problem}")
    obstacles = []
    for k, name in enumerate(values["names"]):
        shapes = []
        for row in values["shapes"][values["shapes"][:, 0] == k]:
            first, count = int(row[12]), int(row[13])
            points = values["vertices"][first : first + count]
            geometry = _geometry(int(row[1]), row[2:5], points)
            shapes.append((geometry, Pose(row[5:8].copy(), row[8:12].copy())))
        obstacles.append(Obstacle(str(name), tuple(shapes), float(values["frictions"][k])))
    return tuple(obstacles)


def _numbers_problem(values: dict[str, NDArray[Any]]) -> str:
    """What is wrong with arrays that should describe obstacles, or ""."""
    shapes = {"names": (None,), "frictions": (None,), "shapes": (None, 14), "vertices": (None, 3)}
    if values.keys() != shapes.keys():
        return f"arrays are {', '.join(sorted(values))}; they must be {', '.join(sorted(shapes))}"
    for key, shape in shapes.items():
        array, kind = values[key], "U" if key == "names" else "f"
        if array.dtype.kind != kind or len(array.shape) != len(shape):
            return f"'{key}' has type {array.dtype} and shape {array.shape}"
        if shape[1:] != array.shape[1:] or (kind == "f" and not np.isfinite(array).all()):
            return f"'{key}' has another width, or numbers that are not finite"
    names, rows, vertices = values["names"], values["shapes"], values["vertices"]
    if len(set(names.tolist())) < len(names) or len(names) != len(values["frictions"]):
        return "names and frictions do not go together"
    for row in rows:
        obstacle, kind, first, count = row[[0, 1, 12, 13]]
        if not (row[[0, 1, 12, 13]] == np.floor(row[[0, 1, 12, 13]])).all():
            return "a shape has an index that is no whole number"
        if not (0 <= obstacle < len(names) and 0 <= kind < len(SIZES)):
            return "a shape is of no obstacle, or of no kind"
        if not (row[2 : 2 + SIZES[int(kind)]] > 0.0).all():
            return "a shape has a size that is not above zero"
        if abs(float(np.linalg.norm(row[8:12])) - 1.0) > 1e-6:
            return "a shape has a quaternion whose length is not one"
        if not (0 <= first <= first + count <= len(vertices)) or (kind == MESH and count < 1):
            return "a mesh has vertices that are not there"
    return ""


def _describe(geometry: coal.CollisionGeometry) -> tuple[int, list[float], Array]:
    """Kind, three sizes and vertices."""
    none = np.zeros((0, 3))
    if isinstance(geometry, coal.Box):
        return 0, (2.0 * np.ravel(geometry.halfSide)).tolist(), none
    if isinstance(geometry, coal.Sphere):
        return 1, [float(geometry.radius), 0.0, 0.0], none
    if isinstance(geometry, coal.Capsule):
        return 2, [float(geometry.radius), 2.0 * float(geometry.halfLength), 0.0], none
    if isinstance(geometry, coal.Cylinder):
        return 3, [float(geometry.radius), 2.0 * float(geometry.halfLength), 0.0], none
    return MESH, [0.0, 0.0, 0.0], mesh_vertices(geometry)


def _geometry(kind: int, sizes: Array, vertices: Array) -> coal.CollisionGeometry:
    if kind == 0:
        return coal.Box(*sizes)
    if kind == 1:
        return coal.Sphere(sizes[0])
    if kind == 2:
        return coal.Capsule(sizes[0], sizes[1])
    if kind == 3:
        return coal.Cylinder(sizes[0], sizes[1])
    return _points(vertices)


def _points(vertices: Array) -> coal.CollisionGeometry:
    """A mesh without triangles: its hull is what counts."""
    model = coal.BVHModelOBBRSS()
    model.beginModel(0, len(vertices))
    model.addVertices(vertices)
    return model


def _single(
    name: str,
    geometry: coal.CollisionGeometry,
    position: ArrayLike,
    quat_xyzw: ArrayLike,
    friction: float,
) -> Obstacle:
    pose = Pose.from_se3(_placement(position, quat_xyzw))
    return Obstacle(name, ((geometry, pose),), friction)


def _placement(position: ArrayLike, quat_xyzw: ArrayLike) -> pin.SE3:
    quat = check_array("quat_xyzw", quat_xyzw, 4)
    length = float(np.linalg.norm(quat))
    if abs(length - 1.0) > 1e-6:
        raise ObstacleError(f"the quaternion x y z w of an obstacle has length {length:.6g}, not 1")
    R = pin.Quaternion(*(quat[[3, 0, 1, 2]] / length)).toRotationMatrix()
    return pin.SE3(R, check_array("position", position, 3))


def _positive(name: str, what: str, values: Sequence[float] | Array) -> list[float]:
    if not all(is_number(value) and value > 0.0 for value in values):
        raise ObstacleError(f"obstacle '{name}': {what} is {values}; it must be above zero")
    return [float(value) for value in values]
