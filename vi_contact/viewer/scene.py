"""A robot as a meshcat scene: commands that a page in a browser replays.

pinocchio's meshcat viewer draws into a window that only records its commands, so there is no
server and no process. Every body is one node, its shapes below it, so that a motion is one pose per
body and time. Obstacles, springs, contact forces and the trail of the centre of mass have nodes of
their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import umsgpack
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from vi_contact.robot.contacts import mesh_vertices
from vi_contact.robot.maximal import rotation_matrices
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.parts import WORLD, Array
from vi_contact.robot.robot import Robot
from vi_contact.viewer.collada import with_even_textures
from vi_contact.viewer.textures import textures_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of pyzmq, in meshcat's imports
    import meshcat
    import meshcat.geometry as mg
    from pinocchio.visualize import MeshcatVisualizer
    from pinocchio.visualize.meshcat_visualizer import DaeMeshGeometry

OBSTACLE_COLOUR = (0.76, 0.65, 0.49, 1.0)
COLLISION_COLOUR = (0.95, 0.45, 0.1, 0.45)
SPRING_COLOUR = 0x8795A6
LOOP_COLOUR = 0xD97706
FORCE_COLOUR = 0x16A34A
TRAIL_COLOUR = 0xDB2777

COILS = 8
CELLS = 40
"""Of the grid, each way."""


Command = tuple[bytes, ...]
"""A packed command; the content of a mesh file is a piece of its own."""


class _Recorder:
    """Stands in for meshcat's window: keeps the packed commands."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def send(self, command: Any) -> None:
        lowered = command.lower()
        for geometry in lowered.get("object", {}).get("geometries", ()):
            if geometry["type"] == "_meshfile":  # meshcat's own page warns of this older name
                geometry["type"] = "_meshfile_geometry"
        drawn = lowered.get("object", {}).get("object", {})
        if drawn.get("format") == "dae":
            drawn["data"] = with_even_textures(drawn["data"])
        self.commands.append(_pieces(lowered))


def _pieces(command: dict[str, Any]) -> Command:
    """Packs a command; links with the same mesh have the same piece, which a page keeps once."""
    packed = umsgpack.packb(command)
    drawn = command.get("object", {})
    for part in (*drawn.get("geometries", ()), drawn.get("object", {})):
        content = part.get("data")
        mesh = content.encode() if isinstance(content, str) else getattr(content, "data", b"")
        if mesh:
            start = packed.index(mesh)
            return packed[:start], mesh, packed[start + len(mesh) :]
    return (packed,)


class _ColladaMesh(DaeMeshGeometry):
    """A COLLADA file with its pictures, as pinocchio's class, which would read any file named."""

    def __init__(self, mesh: Path, robot_file: str) -> None:
        mg.ReferenceSceneElement.__init__(self)
        self.path = self.material = None
        self.intrinsic_transform = np.eye(4)
        self.dae_raw = mesh.read_text(encoding="utf-8", errors="replace")
        self.img_resources = textures_of(mesh, self.dae_raw, robot_file)


class _ShapeLoader(MeshcatVisualizer):
    """pinocchio's loader of shapes, with the nodes where we want them."""

    path = ""
    robot_file = ""

    def loadMeshFromFile(  # noqa: N802 - pinocchio's name
        self, geometry_object: pin.GeometryObject
    ) -> object:
        mesh = Path(geometry_object.meshPath)
        if mesh.suffix.lower() == ".dae":
            return _ColladaMesh(mesh, self.robot_file)
        return super().loadMeshFromFile(geometry_object)

    def getViewerNodeName(  # noqa: N802 - pinocchio's name
        self, geometry_object: pin.GeometryObject, geometry_type: pin.GeometryType
    ) -> str:
        return self.path


@dataclass(frozen=True)
class Scene:
    """Commands that build the scene, and the names of the nodes that move."""

    commands: list[Command]
    bodies: list[str]
    """Nodes below `robot`, in the order of the robot's bodies."""
    collisions: bool
    """Whether collision shapes are there beside the visual ones."""


def build_scene(
    robot: Robot,
    size: float,
    plane: Array | None = None,
    trail: Array | None = None,
    collisions: bool = False,
    obstacles: Sequence[Obstacle] = (),
    arrows: int = 0,
) -> Scene:
    """The scene of a robot.

    size: length that sets the scale of everything that has none [m]; plane: (4,) unit normal and
    height of the ground, None for none; trail: (K, 3) path to draw [m]; collisions: load the
    collision shapes too, hidden at first; arrows: most forces to be shown at once.
    """
    recorder = _Recorder()
    scene = meshcat.Visualizer(window=recorder)
    names = [f"{k} {body.name.replace('/', '_')}" for k, body in enumerate(robot.bodies)]
    loader = _ShapeLoader(robot.model, None, None, data=robot.data)
    loader.robot_file = robot.path
    loader.initViewer(viewer=scene)
    visual, collision = robot.visual_model, robot.collision_model
    if has_shapes(visual):
        _add_shapes(loader, robot, names, visual, "visual", None)
    elif has_shapes(collision):
        _add_shapes(loader, robot, names, collision, "visual", None)
    else:
        _add_skeleton(scene, robot, names, 0.02 * size)
    shown = collisions and has_shapes(visual) and has_shapes(collision)
    if shown:
        _add_shapes(loader, robot, names, collision, "collision", COLLISION_COLOUR)
        for name in [*names, "world"]:
            scene["robot"][name]["collision"].set_property("visible", False)

    _add_loops(scene, robot, names, 0.008 * size)
    for k in range(len(robot.springs)):
        coil = mg.MeshLambertMaterial(color=SPRING_COLOUR)
        scene["springs"][str(k)].set_object(_coil(0.015 * size, 0.003 * size), coil)
    _add_obstacles(loader, obstacles)
    for k in range(arrows):
        _add_arrow(scene["forces"][str(k)], 0.007 * size)
    if plane is not None:
        _add_ground(scene, plane, size)
    if trail is not None and len(trail) > 1:
        points = mg.PointsGeometry(np.ascontiguousarray(trail.T, dtype=np.float32))
        scene["trail"].set_object(mg.Line(points, mg.LineBasicMaterial(color=TRAIL_COLOUR)))
    scene["/Grid"].set_property("visible", False)
    scene["/Axes"].set_property("visible", False)
    return Scene(recorder.commands, names, shown)


def has_shapes(shapes: pin.GeometryModel | None) -> bool:
    """Whether there is anything to draw."""
    return shapes is not None and shapes.ngeoms > 0


def _add_shapes(
    loader: _ShapeLoader,
    robot: Robot,
    names: list[str],
    shapes: pin.GeometryModel,
    group: str,
    colour: tuple[float, ...] | None,
) -> None:
    for k, shape in enumerate(shapes.geometryObjects):
        body = shape.parentJoint - 1
        name = names[body] if body != WORLD else "world"
        com = robot.bodies[body].com if body != WORLD else np.zeros(3)
        loader.path = f"robot/{name}/{group}/{k} {shape.name.replace('/', '_')}"
        loader.loadViewerGeometryObject(shape, pin.GeometryType.VISUAL, colour)
        placement = pin.SE3(shape.placement.rotation, shape.placement.translation - com)
        scale = np.diag([*np.ravel(shape.meshScale), 1.0])
        loader.viewer[loader.path].set_transform(placement.homogeneous @ scale)


def _add_obstacles(loader: _ShapeLoader, obstacles: Sequence[Obstacle]) -> None:
    """As they are met: a mesh as its convex hull, and nothing of one that is flat."""
    plain = (coal.Box, coal.Sphere, coal.Capsule, coal.Cylinder)
    for k, obstacle in enumerate(obstacles):
        for i, (geometry, pose) in enumerate(obstacle.shapes):
            path = f"obstacles/{k} {obstacle.name.replace('/', '_')}/{i}"
            placement = pin.XYZQUATToSE3(pose.vector)
            if isinstance(geometry, plain):
                loader.path = path
                shape = pin.GeometryObject(obstacle.name, 0, placement, geometry)
                loader.loadViewerGeometryObject(shape, pin.GeometryType.VISUAL, OBSTACLE_COLOUR)
            elif (hull := _hull(mesh_vertices(geometry))) is not None:
                colour = int(bytes(int(255 * part) for part in OBSTACLE_COLOUR[:3]).hex(), 16)
                loader.viewer[path].set_object(hull, mg.MeshPhongMaterial(color=colour))
            else:
                continue
            loader.viewer[path].set_transform(placement.homogeneous)


def _hull(points: Array) -> mg.TriangularMeshGeometry | None:
    """The convex hull of points (n, 3), its triangles apart, so that faces look flat."""
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):  # flat, or too few
        return None
    triangles = points[hull.simplices]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    inwards = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    triangles[inwards] = triangles[inwards, ::-1]
    return mg.TriangularMeshGeometry(
        triangles.reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3)
    )


def _add_skeleton(scene: meshcat.Visualizer, robot: Robot, names: list[str], radius: float) -> None:
    """For a robot without shapes: a ball per centre of mass, a bar to every joint."""
    grey = mg.MeshLambertMaterial(color=0x64748B)
    for k, name in enumerate(names):
        node = scene["robot"][name]["visual"]
        node["ball"].set_object(mg.Sphere(radius), grey)
        ends = [robot.joints[k].frame_child.p]
        ends += [joint.frame_parent.p for joint in robot.joints if joint.parent == k]
        for i, end in enumerate(ends):
            length = float(np.linalg.norm(end))
            if length > 0.0:
                node[f"bar {i}"].set_object(mg.Cylinder(length, 0.4 * radius), grey)
                bar = turn_from_z(end / length)
                bar[:3, 3] = 0.5 * end
                node[f"bar {i}"].set_transform(bar @ _Y_TO_Z)


_Y_TO_Z = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""meshcat's cylinders stand along y."""


def turn_from_z(direction: Array) -> Array:
    """(4, 4) a rotation that takes the z-axis to a unit vector."""
    turn = np.eye(4)
    turn[:3, :3] = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), direction).matrix()
    return turn


def _translation(p: Array) -> Array:
    move = np.eye(4)
    move[:3, 3] = p
    return move


def _add_loops(scene: meshcat.Visualizer, robot: Robot, names: list[str], radius: float) -> None:
    """A ball at every loop joint, on its first body."""
    for k, loop in enumerate(robot.loops):
        body, end = (
            (loop.parent, loop.frame_parent)
            if loop.parent != WORLD
            else (loop.child, loop.frame_child)
        )
        node = scene["robot"][names[body]][f"loop {k}"]
        node.set_object(mg.Sphere(radius), mg.MeshLambertMaterial(color=LOOP_COLOUR))
        node.set_transform(_translation(end.p))


def _add_arrow(node: meshcat.Visualizer, radius: float) -> None:
    """Along z: a shaft of length one, to be scaled, and a head, to be put at its end."""
    # over everything else: feet and links must not hide them
    material = mg.MeshLambertMaterial(color=FORCE_COLOUR, transparent=True, depthTest=False)
    node["shaft"]["rod"].set_object(mg.Cylinder(1.0, radius), material)
    node["shaft"]["rod"].set_transform(_translation(np.array([0.0, 0.0, 0.5])) @ _Y_TO_Z)
    node["head"]["cone"].set_object(
        mg.Cylinder(5.0 * radius, radiusTop=0.0, radiusBottom=2.2 * radius), material
    )
    node["head"]["cone"].set_transform(_Y_TO_Z)
    node.set_property("visible", False)


def _add_ground(scene: meshcat.Visualizer, plane: Array, size: float) -> None:
    """A plate with a grid whose cells are a round number of metres."""
    place = turn_from_z(plane[:3])
    place[:3, 3] = plane[3] * plane[:3]
    cell = round_number(0.25 * size)
    half = 0.5 * CELLS * cell
    plate = scene["ground"]["plate"]
    plate.set_object(mg.Box([20 * half, 20 * half, 0.01 * size]), mg.MeshBasicMaterial())
    plate.set_transform(_translation(np.array([0.0, 0.0, -0.01 * size])))  # below the lines
    # in short pieces: graphics drivers may drop a line that ends far behind the camera
    a, b = np.meshgrid(
        np.linspace(-half, half, CELLS + 1), np.linspace(-half, half, CELLS + 1)[:-1]
    )
    zero = np.zeros(a.size)
    ends = [(a, b), (a, b + cell), (b, a), (b + cell, a)]
    lines = np.stack([np.stack([x.ravel(), y.ravel(), zero]) for x, y in ends], axis=-1)
    points = mg.PointsGeometry(lines.reshape(3, -1).astype(np.float32))
    scene["ground"]["grid"].set_object(mg.LineSegments(points, mg.LineBasicMaterial()))
    scene["ground"].set_transform(place)


def round_number(x: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above x."""
    power = 10.0 ** np.floor(np.log10(x))
    return float(max(factor * power for factor in (1.0, 2.0, 5.0) if factor * power <= x))


def _coil(radius: float, wire: float) -> mg.TriangularMeshGeometry:
    """A helix of length one along z, to be scaled."""
    sides, turns = 6, 14 * COILS
    angle = np.linspace(0.0, 2.0 * np.pi * COILS, turns + 1)
    around = np.linspace(0.0, 2.0 * np.pi, sides, endpoint=False)
    width = (radius + wire * np.cos(around))[None, :]
    x, y = np.cos(angle)[:, None] * width, np.sin(angle)[:, None] * width
    # scaled to a length of about ten radii, the wire is round
    z = np.linspace(0.0, 1.0, turns + 1)[:, None] + wire * np.sin(around) / (10.0 * radius)
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    ring = np.arange(turns)[:, None] * sides
    k, following = np.arange(sides), np.roll(np.arange(sides), -1)
    a, b, c, d = ring + k, ring + following, ring + sides + k, ring + sides + following
    faces = np.concatenate(
        [np.stack([a, b, d], -1).reshape(-1, 3), np.stack([a, d, c], -1).reshape(-1, 3)]
    )
    return mg.TriangularMeshGeometry(vertices, faces)


# ---------------------------------------------------------------- where things are
def bounding_box(robot: Robot, q: Array) -> tuple[Array, Array]:
    """(3,), (3,) lowest and highest coordinates of what moves, or else of all shapes [m].

    Without any shapes, of the bodies and joints.
    """
    visual, collision = robot.visual_model, robot.collision_model
    shapes = visual if has_shapes(visual) else collision if has_shapes(collision) else None
    if shapes is None:
        state = robot.to_maximal(q)
        points = [*state.p_WB, *(pose.translation for pose in robot.data.oMi)]
        return np.min(points, axis=0) - 0.05, np.max(points, axis=0) + 0.05
    data = pin.GeometryData(shapes)
    pin.updateGeometryPlacements(robot.model, robot.data, shapes, data, q)
    moving = [k for k, shape in enumerate(shapes.geometryObjects) if shape.parentJoint > 0]
    corners: list[Array] = []
    for k in moving or range(shapes.ngeoms):
        shape = shapes.geometryObjects[k]
        shape.geometry.computeLocalAABB()
        box = shape.geometry.aabb_local
        ends = zip(np.ravel(box.min_), np.ravel(box.max_), strict=True)
        corners.extend(data.oMg[k].act(np.array(corner)) for corner in product(*ends))
    return np.min(corners, axis=0), np.max(corners, axis=0)


def poses_of(p_WB: Array, quat_WB_xyzw: Array) -> NDArray[np.float32]:
    """(..., n, 7) as the page places bodies."""
    return np.concatenate([p_WB, quat_WB_xyzw], axis=-1).astype(np.float32)


def spring_ends(robot: Robot, p_WB: Array, quat_WB_xyzw: Array) -> NDArray[np.float32]:
    """(K, S, 6) both ends of every spring, from poses (K, n, 3), (K, n, 4) [m]."""
    ends = np.empty((len(p_WB), len(robot.springs), 6), dtype=np.float32)
    for k, spring in enumerate(robot.springs):
        ends[:, k, :3] = world_points(spring.body_1, spring.p_1, p_WB, quat_WB_xyzw)
        ends[:, k, 3:] = world_points(spring.body_2, spring.p_2, p_WB, quat_WB_xyzw)
    return ends


def world_points(body: int, p_BC: Array, p_WB: Array, quat_WB_xyzw: Array) -> Array:
    """(K, 3) a point on a body in world axes, from poses (K, n, 3), (K, n, 4) [m]."""
    if body == WORLD:
        return np.tile(p_BC, (len(p_WB), 1))
    R_WB = rotation_matrices(quat_WB_xyzw[:, body])
    return p_WB[:, body] + R_WB @ p_BC


def centre_of_mass(robot: Robot, p_WB: Array) -> Array:
    """(..., 3) of the moving bodies, from their positions (..., n, 3) [m]."""
    mass = np.array([body.mass for body in robot.bodies])
    return np.einsum("i,...ij->...j", mass, p_WB) / mass.sum()
