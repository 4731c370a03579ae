"""Do the inertias fit the shapes? Units and export mistakes show in the radius of gyration."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from vi_contact.robot.parts import Array
from vi_contact.robot.report import Finding, Outcome

if TYPE_CHECKING:
    from vi_contact.robot.robot import Robot

SMALL = 0.6
"""A radius of gyration below this fraction of a uniform box's is called suspicious."""


def gyration_findings(robot: Robot) -> list[Finding]:
    """Bodies whose largest radius of gyration sqrt(I/m) does not fit their shapes.

    A uniform box with the two longest edges a, b has sqrt((a^2 + b^2) / 12); no distribution of
    mass within the shapes exceeds the distance to their farthest corner.
    """
    findings = []
    for i, corners in enumerate(_corners(robot)):
        body = robot.bodies[i]
        if body.mass <= 0.0 or len(corners) == 0 or not np.any(body.inertia):
            continue
        gyration = float(np.sqrt(max(np.linalg.eigvalsh(body.inertia)[2], 0.0) / body.mass))
        edges = np.sort(corners.max(axis=0) - corners.min(axis=0))
        uniform = float(np.sqrt((edges[1] ** 2 + edges[2] ** 2) / 12.0))
        farthest = float(np.linalg.norm(corners - body.com, axis=1).max())
        size = " x ".join(f"{edge:.3g}" for edge in edges[::-1])
        message = (
            f"radius of gyration {1e3 * gyration:.3g} mm: {{}}; a uniform body of this size "
            f"({size} m) has {1e3 * uniform:.3g} mm"
        )
        if gyration < SMALL * uniform:
            message = message.format("small for its shape")
        elif gyration > farthest:
            message = message.format("more than mass inside its shape can give")
        else:
            continue
        findings.append(Finding(Outcome.CHECK, f"link '{body.name}'/inertial", message, robot.file))
    return findings


def _corners(robot: Robot) -> list[Array]:
    """Per body, (n, 3) corners of the boxes around its shapes in the joint's frame."""
    corners: list[list[Array]] = [[] for _ in robot.bodies]
    for geometry in (robot.visual_model, robot.collision_model):
        if geometry is None or any(corners):
            continue
        for shape in geometry.geometryObjects:
            if shape.parentJoint > 0:
                corners[shape.parentJoint - 1].append(_shape_corners(shape))
    return [np.vstack(items) if items else np.zeros((0, 3)) for items in corners]


def _shape_corners(shape: pin.GeometryObject) -> Array:
    shape.geometry.computeLocalAABB()
    box = shape.geometry.aabb_local
    corners = np.array(list(product(*zip(np.ravel(box.min_), np.ravel(box.max_), strict=True))))
    return corners @ shape.placement.rotation.T + shape.placement.translation
