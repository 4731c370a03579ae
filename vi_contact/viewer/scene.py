"""A robot as a meshcat scene in a single HTML file that opens offline.

pinocchio's meshcat viewer draws into a window that only records its commands, so there is no
server and no process; the page replays them.
"""

from __future__ import annotations

import base64
import html
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from vi_contact.errors import PlacementError, ViContactError
from vi_contact.robot.parts import Array
from vi_contact.robot.robot import Robot

VIEW_DIRECTION = np.array([1.0, -1.5, 0.55])
"""From the robot to the camera: from the right, a little to the front and above."""

FIELD_OF_VIEW = np.radians(60.0)
"""Vertical opening to fill: less than meshcat's camera has (75 degrees), as a margin."""


class _Recorder:
    """Stands in for meshcat's window: keeps the packed commands."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []

    def send(self, command: Any) -> None:
        import umsgpack

        self.commands.append(umsgpack.packb(command.lower()))


def robot_page(robot: Robot, q: ArrayLike | None = None) -> str:
    """An HTML page with the robot in configuration q; neutral on the ground if not given."""
    import meshcat
    import meshcat.geometry
    import meshcat.transformations
    from pinocchio.visualize import MeshcatVisualizer

    configuration = _picture_configuration(robot) if q is None else robot.check_q(q)
    shapes = robot.visual_model
    if shapes is None or shapes.ngeoms == 0:
        shapes = robot.collision_model
    if shapes is None or shapes.ngeoms == 0:
        raise ViContactError(f"robot '{robot.name}' has no visual or collision shapes to show")

    recorder = _Recorder()
    scene = meshcat.Visualizer(window=recorder)
    viewer = MeshcatVisualizer(robot.model, pin.GeometryModel(), shapes)
    viewer.initViewer(viewer=scene)
    viewer.loadViewerModel(rootNodeName="robot")
    viewer.display(configuration)

    lower, upper = bounding_box(robot, shapes, configuration)
    size = float(np.linalg.norm(upper - lower))
    ground = scene["ground"]["plate"]
    ground.set_object(
        meshcat.geometry.Box([20.0 * size, 20.0 * size, 0.01 * size]),
        meshcat.geometry.MeshLambertMaterial(color=0xD9DEE5),
    )
    below = [0.0, 0.0, lower[2] - 0.005 * size]
    ground.set_transform(meshcat.transformations.translation_matrix(below))
    scene["/Grid"].set_property("visible", False)
    scene["/Axes"].set_property("visible", False)
    scene["/Background"].set_property("top_color", [0.90, 0.93, 0.97])
    scene["/Background"].set_property("bottom_color", [0.76, 0.81, 0.88])
    # the camera circles the origin: bring the robot's middle there
    to_middle = meshcat.transformations.translation_matrix(-0.5 * (lower + upper))
    scene["robot"].set_transform(to_middle)
    scene["ground"].set_transform(to_middle)
    distance = 0.5 * size / np.tan(0.5 * FIELD_OF_VIEW)
    x, y, z = VIEW_DIRECTION / np.linalg.norm(VIEW_DIRECTION) * distance
    scene["/Cameras/default/rotated/<object>"].set_property("position", [x, z, -y])
    return _page(f"{robot.name} - vi_contact", recorder.commands)


def _picture_configuration(robot: Robot) -> Array:
    """The neutral configuration, standing on the ground if the robot can be lifted."""
    try:
        return robot.on_ground(robot.neutral())
    except PlacementError:
        return robot.neutral()


def save_robot_page(robot: Robot, path: str | Path, q: ArrayLike | None = None) -> Path:
    """Writes `robot_page` to a file; returns its path."""
    file = Path(path)
    try:
        file.write_text(robot_page(robot, q), encoding="utf-8")
    except OSError as error:
        raise ViContactError(f"cannot write {file}: {error.strerror}") from error
    return file


def bounding_box(robot: Robot, shapes: pin.GeometryModel, q: Array) -> tuple[Array, Array]:
    """(3,), (3,) lowest and highest coordinates of the shapes on moving bodies, else of all [m]."""
    data = pin.GeometryData(shapes)
    pin.updateGeometryPlacements(robot.model, robot.data, shapes, data, q)
    moving = [k for k, shape in enumerate(shapes.geometryObjects) if shape.parentJoint > 0]
    corners: list[Array] = []
    for k in moving or range(shapes.ngeoms):
        shape = shapes.geometryObjects[k].geometry
        shape.computeLocalAABB()
        box = shape.aabb_local
        ends = zip(np.ravel(box.min_), np.ravel(box.max_), strict=True)
        corners.extend(data.oMg[k].act(np.array(corner)) for corner in product(*ends))
    return np.min(corners, axis=0), np.max(corners, axis=0)


def _page(title: str, commands: list[bytes]) -> str:
    """The page: meshcat's viewer, and every command as base64."""
    viewer = resources.files("meshcat") / "viewer" / "dist" / "main.min.js"
    encoded = ",\n".join(f'"{base64.b64encode(command).decode()}"' for command in commands)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
  html, body {{ margin: 0; height: 100%; }}
  #scene {{ width: 100vw; height: 100vh; overflow: hidden; }}
  .dg {{ display: none; }}
</style>
</head>
<body>
<div id="scene"></div>
<script>{viewer.read_text(encoding="utf-8")}</script>
<script>
const viewer = new MeshCat.Viewer(document.getElementById("scene"));
const commands = [
{encoded}
];
for (const command of commands) {{
  viewer.handle_command_bytearray(Uint8Array.from(atob(command), c => c.charCodeAt(0)));
}}
</script>
</body>
</html>
"""
