"""Convex shapes: a polytope swept by a sphere, with the features at which others touch it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import coal
import numpy as np
from numpy.typing import NDArray

from vi_contact.robot.hulls import Hull, hull_of
from vi_contact.robot.meshes import Mesh, mesh_of_vertices
from vi_contact.robot.parts import Array, Record

PRISM_SIDES = 24
"""A cylinder is a prism of so many sides; flat by 0.9 % of its radius."""


@dataclass(frozen=True)
class Convex(Record):
    """A ball has one vertex, a capsule two; boxes and meshes have radius zero."""

    shape: coal.CollisionGeometry | None
    """What the distances are computed of, if it is not the polytope."""
    radius: float
    """[m]."""
    vertices: Array
    """(n, 3) in the frame of the shape [m]."""
    edges: NDArray[np.int64]
    """(e, 2)."""
    faces: tuple[tuple[int, ...], ...] = ()
    """Loops of vertices, anticlockwise seen from outside."""
    normals: Array = field(default_factory=lambda: np.zeros((0, 3)))
    """(f, 3) of the faces, outwards."""
    triangles: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    """(t, 3) the faces cut up."""
    note: str = ""
    """What was approximated."""

    @cached_property
    def geometry(self) -> coal.CollisionGeometry:
        """What the distances are computed of."""
        if self.shape is not None:
            return self.shape
        mesh = coal.BVHModelOBB()
        mesh.beginModel(len(self.triangles), len(self.vertices))
        mesh.addVertices(self.vertices)
        mesh.addTriangles(self.triangles.astype(np.uint64))
        mesh.buildConvexRepresentation(False)
        return mesh.convex

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """(3,) lower and upper corner of the box around it, in its frame [m]."""
        return (
            self.vertices.min(axis=0) - self.radius,
            self.vertices.max(axis=0) + self.radius,
        )


def convex_of(geometry: coal.CollisionGeometry | Mesh) -> Convex | None:
    """The convex shape of a collision geometry, or None if there is none (flat, or not known).

    A mesh is replaced by its convex hull.
    """
    none = np.zeros((0, 2), dtype=np.int64)
    if isinstance(geometry, coal.Sphere):
        return Convex(geometry, float(geometry.radius), np.zeros((1, 3)), none)
    if isinstance(geometry, coal.Capsule):
        ends = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]) * float(geometry.halfLength)
        return Convex(geometry, float(geometry.radius), ends, np.array([[0, 1]]))
    if isinstance(geometry, coal.Box):
        corners = np.array(list(product((-1.0, 1.0), repeat=3))) * np.ravel(geometry.halfSide)
        return _polytope(hull_of(corners)[0], geometry, "")
    if isinstance(geometry, coal.Cylinder):
        angles = 2.0 * np.pi * np.arange(PRISM_SIDES) / PRISM_SIDES
        rim = float(geometry.radius) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        half = np.full(PRISM_SIDES, float(geometry.halfLength))
        rims = [np.column_stack([rim, z]) for z in (-half, half)]
        sag = float(geometry.radius) * (1.0 - np.cos(np.pi / PRISM_SIDES))
        note = f"cylinder as a prism of {PRISM_SIDES} sides, flat by {1e3 * sag:.2g} mm"
        return _polytope(hull_of(np.vstack(rims))[0], None, note)
    if isinstance(geometry, coal.ConvexBase):
        mesh = mesh_of_vertices(np.array(geometry.points()))
        return _polytope(mesh.hull, None, mesh.simplification)
    if isinstance(geometry, coal.BVHModelBase):
        geometry = mesh_of_vertices(np.array(geometry.vertices()))
    if isinstance(geometry, Mesh):
        note = "mesh as its convex hull"
        lack = geometry.simplification
        return _polytope(geometry.hull, None, f"{note}; {lack}" if lack else note)
    return None


def _polytope(hull: Hull | None, shape: coal.CollisionGeometry | None, note: str) -> Convex | None:
    if hull is None:
        return None
    return Convex(
        shape, 0.0, hull.vertices, hull.edges, hull.faces, hull.normals, hull.triangles, note
    )
