"""Convex shapes: a polytope swept by a sphere, with the features at which others touch it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import coal
import numpy as np
from scipy.spatial import ConvexHull, QhullError

from vi_contact.robot.parts import Array, Record

PRISM_SIDES = 24
"""A cylinder is a prism of so many sides; flat by 0.9 % of its radius."""

COPLANAR = 1e-7
"""Facets of a hull whose normals differ by less are one face."""


@dataclass(frozen=True)
class Convex(Record):
    """A ball has one vertex, a capsule two; boxes and meshes have radius zero."""

    geometry: coal.CollisionGeometry
    """What the distances are computed of."""
    radius: float
    """[m]."""
    vertices: Array
    """(n, 3) in the frame of the shape [m]."""
    edges: tuple[tuple[int, int], ...]
    faces: tuple[tuple[int, ...], ...]
    """Loops of vertices, anticlockwise seen from outside."""
    normals: Array
    """(f, 3) of the faces, outwards."""
    note: str = ""
    """What was approximated."""


def convex_of(geometry: coal.CollisionGeometry) -> Convex | None:
    """The convex shape of a collision geometry, or None if there is none (flat, or not known).

    A mesh is replaced by its convex hull.
    """
    none: tuple[()] = ()
    if isinstance(geometry, coal.Sphere):
        radius = float(geometry.radius)
        return Convex(geometry, radius, np.zeros((1, 3)), none, none, np.zeros((0, 3)))
    if isinstance(geometry, coal.Capsule):
        ends = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]) * float(geometry.halfLength)
        return Convex(geometry, float(geometry.radius), ends, ((0, 1),), none, np.zeros((0, 3)))
    if isinstance(geometry, coal.Box):
        corners = np.array(list(product((-1.0, 1.0), repeat=3))) * np.ravel(geometry.halfSide)
        return _polytope(corners, geometry, "")
    if isinstance(geometry, coal.Cylinder):
        angles = 2.0 * np.pi * np.arange(PRISM_SIDES) / PRISM_SIDES
        rim = float(geometry.radius) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        half = np.full(PRISM_SIDES, float(geometry.halfLength))
        rims = [np.column_stack([rim, z]) for z in (-half, half)]
        sag = float(geometry.radius) * (1.0 - np.cos(np.pi / PRISM_SIDES))
        note = f"cylinder as a prism of {PRISM_SIDES} sides, flat by {1e3 * sag:.2g} mm"
        return _polytope(np.vstack(rims), None, note)
    if isinstance(geometry, coal.BVHModelBase):
        return _polytope(np.array(geometry.vertices()), None, "mesh as its convex hull")
    if isinstance(geometry, coal.ConvexBase):
        return _polytope(np.array(geometry.points()), None, "")
    return None


def _polytope(points: Array, geometry: coal.CollisionGeometry | None, note: str) -> Convex | None:
    """The hull of some points, facets in one plane merged."""
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):  # flat, or too few
        return None
    number = {int(vertex): k for k, vertex in enumerate(hull.vertices)}
    vertices = points[hull.vertices]
    faces, normals = [], []
    left = list(range(len(hull.simplices)))
    while left:
        normal = hull.equations[left[0], :3]
        same = [
            i
            for i in left
            if np.abs(hull.equations[i, :3] - normal).max() < COPLANAR
            and abs(hull.equations[i, 3] - hull.equations[left[0], 3]) < COPLANAR
        ]
        left = [i for i in left if i not in same]
        corners = sorted({number[int(vertex)] for i in same for vertex in hull.simplices[i]})
        middle = vertices[corners].mean(axis=0)
        x = vertices[corners[0]] - middle
        y = np.cross(normal, x)
        away = vertices[corners] - middle
        order = np.argsort(np.arctan2(away @ y, away @ x))
        faces.append(tuple(corners[i] for i in order))
        normals.append(normal)
    edges = {
        (min(a, b), max(a, b))
        for face in faces
        for a, b in zip(face, face[1:] + face[:1], strict=True)
    }
    return Convex(
        geometry if geometry is not None else _hull_geometry(vertices),
        0.0,
        vertices.copy(),
        tuple(sorted(edges)),
        tuple(faces),
        np.array(normals),
        note,
    )


def _hull_geometry(vertices: Array) -> coal.CollisionGeometry:
    """coal's convex polytope of hull vertices."""
    triangles = ConvexHull(vertices).simplices
    mesh = coal.BVHModelOBBRSS()
    mesh.beginModel(len(triangles), len(vertices))
    mesh.addVertices(vertices)
    for a, b, c in triangles:
        mesh.addTriangle(vertices[a], vertices[b], vertices[c])
    mesh.endModel()
    mesh.buildConvexHull(True, "Qt")
    return mesh.convex
