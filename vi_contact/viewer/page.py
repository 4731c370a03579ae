"""Pages for the browser: one HTML file with everything inside, which needs no network.

`page/page.html`, `.css` and `.js` are the page; meshcat's viewer draws. The data are one gzip
stream: a JSON header, then numbers as float32 and meshcat's commands.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import struct
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import PlacementError, ViContactError
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.parts import Array
from vi_contact.robot.robot import Robot
from vi_contact.robot.shapes import missing_words
from vi_contact.viewer import scene

VIEW_DIRECTION = np.array([1.0, -1.5, 0.55]) / np.linalg.norm([1.0, -1.5, 0.55])
"""From the robot to the camera: from the right, a little to the front and above."""

LARGEST = 1e30
"""Number in pages and plots: single precision ends at 3e38, and forces are scaled there."""

ARROW_LENGTH = 0.2
"""Of a force as large as the robot's weight, per size of what the camera sees."""


def robot_page(robot: Robot, q: ArrayLike | None = None, collisions: bool = False) -> str:
    """An HTML page with the robot in configuration q; neutral on the ground if not given."""
    configuration = picture_configuration(robot) if q is None else robot.check_q(q)
    plane = np.array([0.0, 0.0, 1.0, min(0.0, scene.bounding_box(robot, configuration)[0][2])])
    return render(robot.name, still_data(robot, configuration, plane, collisions, "still"))


def save_page(path: str | Path, text: str) -> Path:
    """Writes a page to a file, .html if it has no ending; returns its path."""
    file = Path(path)
    if not file.suffix:
        file = file.with_name(f"{file.name}.html")
    if file.suffix.lower() not in (".html", ".htm"):
        raise ViContactError(
            f"cannot write {file}: the page is HTML, so name it {file.stem}.html; "
            "trajectory.plot writes .png, .pdf and .svg"
        )
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ViContactError(f"cannot write {file}: {error.strerror}") from error
    return file


def picture_configuration(robot: Robot) -> Array:
    """The neutral configuration, standing on the ground if the robot can be lifted."""
    try:
        return robot.on_ground(robot.neutral())
    except PlacementError:
        return robot.neutral()


def still_data(
    robot: Robot,
    q: Array,
    plane: Array | None,
    collisions: bool,
    kind: str,
    obstacles: Sequence[Obstacle] = (),
    arrows: int = 0,
) -> dict[str, Any]:
    """Data of a page that shows the robot in one configuration, to begin with."""
    lower, upper = scene.bounding_box(robot, q)
    state = robot.to_maximal(q)
    data = scene_data(robot, kind, lower, upper, plane, None, collisions, obstacles, arrows)
    return data | {
        "poses": scene.poses_of(state.p_WB, state.quat_WB_xyzw),
        "ends": scene.spring_ends(robot, state.p_WB[None], state.quat_WB_xyzw[None]),
    }


def scene_data(
    robot: Robot,
    kind: str,
    lower: Array,
    upper: Array,
    plane: Array | None,
    trail: Array | None,
    collisions: bool,
    obstacles: Sequence[Obstacle],
    arrows: int,
) -> dict[str, Any]:
    """What every page has: the scene, and a camera that sees the box from lower to upper."""
    check_range("the robot's place", lower, upper)
    size = float(np.linalg.norm(upper - lower))
    built = scene.build_scene(robot, size, plane, trail, collisions, obstacles, arrows)
    weight = 9.81 * max(robot.mass, 1e-9)
    return {
        "kind": kind,
        "title": robot.name,
        "summary": [],
        "missing": _missing(robot),
        "commands": built.commands,
        "bodies": built.bodies,
        "springs": [spring.name for spring in robot.springs],
        "arrows": arrows,
        "collisions": built.collisions,
        "metresPerNewton": ARROW_LENGTH * size / weight,
        "camera": {
            "lower": lower.tolist(),
            "upper": upper.tolist(),
            "direction": VIEW_DIRECTION.tolist(),
        },
    }


def check_range(what: str, *arrays: Array) -> None:
    """ViContactError where numbers are too large for pictures, which have single precision."""
    largest = max(float(np.abs(array).max(initial=0.0)) for array in arrays)
    if not largest <= LARGEST:
        raise ViContactError(
            f"{what} has numbers up to {largest:.3g}; pages and plots hold up to {LARGEST:g}: "
            "check units, or what made the motion grow"
        )


def _missing(robot: Robot) -> str:
    """What the picture lacks, in words; empty if nothing."""
    drawn = "visual" if scene.has_shapes(robot.visual_model) else "collision"
    lost = [mesh for mesh in robot.missing_meshes if mesh.role in ("visual", drawn)]
    return missing_words(lost, named=1) if lost else ""


def pack(data: dict[str, Any]) -> str:
    """The data as text: base64 of gzip. The same numbers or bytes twice are kept once."""
    known: dict[bytes, list[int]] = {}
    size = 0

    def place(value: Any) -> dict[str, list[int]]:
        nonlocal size
        kind = "bytes" if isinstance(value, bytes) else "float32"
        piece = value if isinstance(value, bytes) else np.asarray(value, np.float32).tobytes()
        if piece not in known:
            known[piece] = [size, len(piece)]
            size += len(piece)
        return {kind: known[piece]}

    header = json.dumps(data, default=place, allow_nan=False).encode()
    content = struct.pack("<I", len(header)) + header + b"".join(known)
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


def render(title: str, data: dict[str, Any]) -> str:
    """The page."""
    folder = resources.files("vi_contact") / "viewer" / "page"
    meshcat = resources.files("meshcat") / "viewer" / "dist" / "main.min.js"
    parts = {
        "TITLE": html.escape(f"{title} - vi_contact"),
        "STYLE": (folder / "page.css").read_text(encoding="utf-8"),
        "SCRIPT": (folder / "page.js").read_text(encoding="utf-8"),
        "MESHCAT": meshcat.read_text(encoding="utf-8"),
        "DATA": pack(data),
    }
    template = (folder / "page.html").read_text(encoding="utf-8")
    return re.sub(r"{{([A-Z]+)}}", lambda match: parts[match[1]], template)
