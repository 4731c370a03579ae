"""Contact points: declared ones, or derived from collision shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import coal
import numpy as np

from vi_contact.errors import ValueFormatError
from vi_contact.robot.extension import ContactSpec
from vi_contact.robot.meshes import Mesh, mesh_of_vertices
from vi_contact.robot.parts import WORLD, Array, Contact
from vi_contact.robot.report import Finding, Outcome
from vi_contact.robot.xml import Document, Element

if TYPE_CHECKING:
    from vi_contact.robot.robot import Robot

RIM_POINTS = 8
"""Contact points on each rim of a cylinder."""


@dataclass(frozen=True)
class ContactFinder:
    """Contacts of a robot when asked for: the declared ones, or else from the collision shapes."""

    declared: tuple[ContactSpec, ...] = ()
    friction: Mapping[str, float] = field(default_factory=dict)
    """By link."""

    def __call__(self, robot: Robot) -> tuple[tuple[Contact, ...], tuple[Finding, ...]]:
        if self.declared:
            return declared_contacts(robot, self.declared, self.friction)
        return derived_contacts(robot, self.friction)


def link_friction(document: Document) -> tuple[dict[str, float], list[Finding]]:
    """Friction by link: Gazebo's mu1, and Bullet's lateral_friction, which wins."""
    friction: dict[str, float] = {}
    findings = []
    links = {link.get("name"): link for link in document.root.findall("link")}
    for gazebo in document.root.findall("gazebo"):
        mu = gazebo.find("mu1")
        if mu is None:
            continue
        old_dialect = mu.get("value") is not None
        value = document.number(mu, "value") if old_dialect else document.content_number(mu)
        _coefficient(document, mu, value)
        name = gazebo.get("reference")
        if name in links:
            friction[name] = value
            continue
        message = f"there is no link '{name}'" if name else "no link is named in 'reference'"
        findings.append(
            Finding(Outcome.IGNORED, "gazebo/mu1", message, document.path.name, mu.sourceline, True)
        )
    for name, link in links.items():
        lateral = link.find("contact/lateral_friction")
        if lateral is not None:
            value = document.number(lateral, "value")
            friction[str(name)] = _coefficient(document, lateral, value)
    return friction, findings


def _coefficient(document: Document, element: Element, value: float) -> float:
    if value < 0.0:
        document.fail(ValueFormatError, element, f"a friction of {value:g}; it must be 0 or more")
    return value


def declared_contacts(
    robot: Robot, specs: Sequence[ContactSpec], friction: Mapping[str, float]
) -> tuple[tuple[Contact, ...], tuple[Finding, ...]]:
    """Contacts of the extension block in body coordinates; those fixed to the world are left out.

    A contact without friction of its own has that of its link, if it has one.
    """
    contacts, findings = [], []
    for spec in specs:
        body, placement = robot.link_placement(spec.link)
        if body == WORLD:
            message = f"its link '{spec.link}' is fixed to the world and never touches the ground"
            findings.append(Finding(Outcome.IGNORED, f"contact '{spec.name}'", message, robot.file))
            continue
        contacts.append(
            Contact(
                spec.name,
                body,
                spec.link,
                placement.act(spec.point),
                spec.radius,
                friction.get(spec.link) if spec.friction is None else spec.friction,
                "declared",
            )
        )
    return tuple(contacts), tuple(findings)


def derived_contacts(
    robot: Robot, friction: Mapping[str, float]
) -> tuple[tuple[Contact, ...], tuple[Finding, ...]]:
    """Contacts of all collision shapes on moving bodies, and what was approximated."""
    by_link: dict[str, list[tuple[int, Array, float, str]]] = {}
    findings: list[Finding] = []
    for collider in robot.colliders:
        body, link = collider.body, collider.link
        if body == WORLD:
            continue
        points, radius, source, approximation = shape_points(collider.shape)
        if approximation:
            element = f"link '{link}'/collision"
            findings.append(
                Finding(Outcome.APPROXIMATED, element, approximation, robot.file, physics=True)
            )
        com = robot.bodies[body].com
        for point in points:
            p_BC = collider.placement.act(point) - com
            by_link.setdefault(link, []).append((body, p_BC, radius, source))
    contacts = []
    for link, entries in by_link.items():
        for k, (body, p_BC, radius, source) in enumerate(entries):
            name = link if len(entries) == 1 else f"{link}_{k}"
            contacts.append(Contact(name, body, link, p_BC, radius, friction.get(link), source))
    return tuple(contacts), tuple(findings)


def shape_points(shape: coal.CollisionGeometry | Mesh) -> tuple[Array, float, str, str]:
    """Points (n, 3) in the shape's frame, their radius, the shape's name, what was approximated."""
    if isinstance(shape, coal.Sphere):
        return np.zeros((1, 3)), float(shape.radius), "sphere", ""
    if isinstance(shape, coal.Box):
        corners = np.array(list(product((-1.0, 1.0), repeat=3))) * np.ravel(shape.halfSide)
        return _different(corners), 0.0, "box", ""
    if isinstance(shape, coal.Capsule):
        ends = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]) * float(shape.halfLength)
        return _different(ends), float(shape.radius), "capsule", ""
    if isinstance(shape, coal.Cylinder):
        radius, half = float(shape.radius), float(shape.halfLength)
        angles = 2.0 * np.pi * np.arange(RIM_POINTS) / RIM_POINTS
        rim = np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)
        points = np.vstack([np.column_stack([rim, np.full(RIM_POINTS, z)]) for z in (-half, half)])
        points = _different(points)
        sag = radius * (1.0 - np.cos(np.pi / RIM_POINTS))
        return points, 0.0, "cylinder", (
            f"cylinder as {len(points)} rim points, flat by at most {1e3 * sag:.2g} mm"
        ) if sag else ""  # fmt: skip
    mesh = shape if isinstance(shape, Mesh) else mesh_of_vertices(mesh_vertices(shape))
    return mesh.points, 0.0, "mesh", (
        f"mesh as {len(mesh.points)} hull vertices of {mesh.span}, its hull sticks out by up to "
        f"{1e3 * mesh.depth:.2g} mm"
    ) if mesh.depth > 0.0 else ""  # fmt: skip


def _different(points: Array) -> Array:
    """The points without repetitions, which shapes without volume have; in the same order."""
    _, first = np.unique(points, axis=0, return_index=True)
    different: Array = points[np.sort(first)]
    return different


def mesh_vertices(shape: coal.CollisionGeometry) -> Array:
    """(n, 3) vertices of a triangle mesh or convex polytope."""
    if isinstance(shape, coal.BVHModelBase):
        return np.array(shape.vertices())
    if isinstance(shape, coal.ConvexBase):
        return np.array(shape.points())
    box = shape.aabb_local  # ellipsoid, cone: no vertices of their own
    return np.array(list(product(*zip(box.min_, box.max_, strict=True))))
