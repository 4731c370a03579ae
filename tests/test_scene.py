"""The scene and its page, as data; tests/test_browser.py looks at them in a browser."""

import re

import numpy as np
import pinocchio as pin
import pytest
import umsgpack
from pages import unpack
from support import BUNDLED
from urdf_text import pair, write

import vi_contact as vc
from vi_contact.viewer.page import robot_page
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
    scene = build_scene(robot, 1.0, plane, trail, collisions=True)
    commands = [umsgpack.unpackb(command) for command in scene.commands]
    objects = {c["path"].removeprefix("/meshcat/") for c in commands if c["type"] == "set_object"}
    assert {"springs/0", "trail", "ground/plate", "ground/grid"} <= objects
    assert {"forces/0/shaft/rod", "forces/0/head/cone"} <= objects
    assert any(path.endswith("loop 0") for path in objects)
    assert sum("/collision/" in path for path in objects) == robot.collision_model.ngeoms


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
