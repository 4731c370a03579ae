"""The scene and its page, as data; tests/test_browser.py looks at them in a browser."""

import base64
import gzip
import re

import numpy as np
import pinocchio as pin
import pytest
import umsgpack
from pages import unpack
from scipy.spatial import ConvexHull
from support import BUNDLED, example
from urdf_text import pair, write

import vi_contact as vc
from vi_contact.viewer.page import pack, robot_page
from vi_contact.viewer.scene import bounding_box, build_scene, round_number


@pytest.mark.parametrize("name", BUNDLED)
def test_every_shape_is_drawn_where_pinocchio_puts_it(name):
    robot = vc.load_robot(name)
    q = robot.on_ground(robot.neutral()) if name != "walker" else robot.neutral()
    data = unpack(robot_page(robot, q))
    objects = {c["path"] for c in data["commands"] if c["type"] == "set_object"}
    placed = {
        c["path"]: np.array(c["matrix"]).reshape(4, 4, order="F")
        for c in data["commands"]
        if c["type"] == "set_transform"
    }
    poses = data["poses"].reshape(-1, 7)
    shapes = robot.visual_model
    geometry = pin.GeometryData(shapes)
    pin.updateGeometryPlacements(robot.model, robot.data, shapes, geometry, q)
    for k, shape in enumerate(shapes.geometryObjects):
        body = shape.parentJoint - 1
        node = data["bodies"][body] if body >= 0 else "world"
        path = f"/meshcat/robot/{node}/visual/{k} {shape.name}"
        assert path in objects
        T_WB = np.eye(4)
        if body >= 0:
            T_WB = pin.XYZQUATToSE3(poses[body].astype(float)).homogeneous
        # single precision in the page
        np.testing.assert_allclose(T_WB @ placed[path], geometry.oMg[k].homogeneous, atol=1e-6)
    drawn = [path for path in objects if "/visual/" in path]
    assert len(drawn) == shapes.ngeoms


def test_what_no_urdf_shape_shows_is_drawn():
    robot = vc.load_robot("fly_hopper")
    trail = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    plane = np.array([0.0, 0.0, 1.0, 0.0])
    scene = build_scene(robot, 1.0, plane, trail, collisions=True, arrows=1)
    commands = [umsgpack.unpackb(b"".join(pieces)) for pieces in scene.commands]
    objects = {c["path"].removeprefix("/meshcat/") for c in commands if c["type"] == "set_object"}
    assert {"springs/0", "trail", "ground/plate", "ground/grid"} <= objects
    assert {"forces/0/shaft/rod", "forces/0/head/cone"} <= objects
    assert any(path.endswith("loop 0") for path in objects)
    assert sum("/collision/" in path for path in objects) == robot.collision_model.ngeoms


def test_obstacles_are_drawn_where_they_are():
    turned = np.array([0.1, 0.2, 0.3, 0.4]) / np.linalg.norm([0.1, 0.2, 0.3, 0.4])
    rng = np.random.default_rng(1)
    points = rng.normal(size=(40, 3))
    obstacles = [
        vc.Obstacle.box((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), turned, name="a/b"),
        vc.Obstacle.sphere(0.7, (-1.0, 0.0, 0.5)),
        vc.Obstacle.capsule(0.2, 0.6, (0.0, -1.0, 0.5), turned),
        vc.Obstacle.mesh(points, (0.0, 0.0, 7.0), turned),
        vc.Obstacle.mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], name="flat"),  # nothing meets it
    ]
    built = build_scene(vc.load_robot("walker"), 1.0, obstacles=obstacles)
    commands = [umsgpack.unpackb(b"".join(pieces)) for pieces in built.commands]
    drawn = {}
    for command in commands:
        if "/obstacles/" in command["path"]:
            drawn.setdefault(command["path"].split("/")[3], {})[command["type"]] = command
    assert list(drawn) == ["0 a_b", "1 sphere", "2 capsule", "3 mesh"]
    shapes = {}
    for (name, parts), obstacle in zip(drawn.items(), obstacles, strict=False):
        matrix = np.array(parts["set_transform"]["matrix"]).reshape(4, 4, order="F")
        pose = obstacle.shapes[0][1].vector
        np.testing.assert_allclose(matrix, pin.XYZQUATToSE3(pose).homogeneous, atol=1e-15)
        [shapes[name]] = parts["set_object"]["object"]["geometries"]
    box = shapes["0 a_b"]
    # three.js calls the edges along x, y, z so
    assert (box["width"], box["height"], box["depth"]) == (1.0, 2.0, 3.0)
    assert shapes["1 sphere"]["radius"] == 0.7
    capsule = corners(shapes["2 capsule"])
    np.testing.assert_allclose(np.ptp(capsule, axis=0), [0.4, 0.4, 1.0], atol=0.01)  # has corners
    hull = corners(shapes["3 mesh"])
    assert {tuple(p) for p in np.float32(points[ConvexHull(points).vertices])} == {
        tuple(p) for p in hull
    }
    triangles = hull[triangles_of(shapes["3 mesh"])]
    outwards = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    assert (np.einsum("ij,ij->i", outwards, triangles[:, 0] - hull.mean(axis=0)) > 0.0).all()


def corners(geometry):
    """(n, 3) of a mesh."""
    position = geometry["data"]["attributes"]["position"]
    return np.frombuffer(position["array"].data, np.float32).reshape(-1, 3)


def triangles_of(geometry):
    """(t, 3) corners of each."""
    return np.frombuffer(geometry["data"]["index"]["array"].data, np.uint32).reshape(-1, 3)


def test_links_with_the_same_mesh_share_it():
    robot = vc.load_robot(example("go2.urdf"))
    commands = build_scene(robot, 1.0).commands
    meshes = [pieces[1] for pieces in commands if len(pieces) == 3]
    assert len(meshes) == robot.visual_model.ngeoms
    files = {shape.meshPath for shape in robot.visual_model.geometryObjects}
    assert len(set(meshes)) == len(files) < len(meshes)
    content = gzip.decompress(base64.b64decode(pack({"commands": commands})))
    assert len(content) < sum(map(len, set(meshes))) + 1e5
    for mesh in set(meshes):
        assert content.count(mesh) == 1


def test_page_needs_no_network():
    page = robot_page(vc.load_robot("walker"))
    assert not re.search(r'(src|href)\s*=\s*"https?:', page)


def test_robot_without_shapes_is_drawn_as_a_skeleton(tmp_path):
    robot = vc.load_robot(write(tmp_path, pair()))
    data = unpack(robot_page(robot))
    objects = [c["path"] for c in data["commands"] if c["type"] == "set_object"]
    assert sum(path.endswith("/ball") for path in objects) == len(robot.bodies)
    lower, upper = bounding_box(robot, robot.neutral())
    assert np.all(upper > lower)


def test_round_numbers():
    assert [round_number(x) for x in (0.19, 0.2, 0.99, 7.0)] == [0.1, 0.2, 0.5, 5.0]
