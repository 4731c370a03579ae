"""The picture page; that browsers draw it is looked at, not tested here."""

import base64
import re

import numpy as np
import pytest
import umsgpack
from support import BUNDLED
from urdf_text import pair, write

import vi_contact as vc
from vi_contact.viewer.scene import bounding_box, robot_page


def commands(page):
    block = page.split("const commands = [")[1].split("];")[0]
    return [umsgpack.unpackb(base64.b64decode(text)) for text in re.findall('"(.*?)"', block)]


@pytest.mark.parametrize("name", BUNDLED)
def test_every_shape_is_drawn_where_pinocchio_puts_it(name):
    robot = vc.load_robot(name)
    parts = commands(robot_page(robot))
    objects = {part["path"] for part in parts if part["type"] == "set_object"}
    assert len(objects) == robot.visual_model.ngeoms + 1  # and the ground
    assert all("pinocchio" not in path for path in objects)
    placed = {part["path"] for part in parts if part["type"] == "set_transform"}
    assert objects <= placed


def test_robot_stands_on_the_ground_in_the_middle_of_the_view():
    robot = vc.load_robot("fly_hopper")
    parts = commands(robot_page(robot))
    place = {
        part["path"]: np.array(part["matrix"]).reshape(4, 4, order="F")[:3, 3]
        for part in parts
        if part["type"] == "set_transform"
    }
    standing = robot.on_ground(robot.neutral())
    lower, upper = bounding_box(robot, robot.visual_model, standing)
    np.testing.assert_allclose(place["/meshcat/robot"], -0.5 * (lower + upper), atol=1e-12)
    np.testing.assert_array_equal(place["/meshcat/robot"], place["/meshcat/ground"])


def test_page_needs_no_network():
    page = robot_page(vc.load_robot("walker"))
    assert not re.search(r'(src|href)\s*=\s*"https?:', page)


def test_robot_without_shapes(tmp_path):
    robot = vc.load_robot(write(tmp_path, pair()))
    with pytest.raises(vc.ViContactError, match="no visual or collision shapes"):
        robot_page(robot)
