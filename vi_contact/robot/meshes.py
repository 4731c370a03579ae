"""Meshes: each file is read once and reduced to its convex hull, which is kept on disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coal
import numpy as np
import scipy
from numpy.typing import NDArray

from vi_contact.errors import MeshSizeError
from vi_contact.robot import hull_cache
from vi_contact.robot.hulls import MAX_HULL_POINTS, MAX_VERTICES, Hull, hull_of, reduced_hull
from vi_contact.robot.parts import Array, Record

MAX_FILE = 60_000_000
"""Longest mesh file that is read [bytes]: its reader takes seven times as much memory."""

METHOD = 1
"""Counts the changes of what is computed here and in `hulls`: what older ones kept is not used."""

VERSION = f"{METHOD} {MAX_VERTICES} {MAX_HULL_POINTS} {scipy.__version__} {coal.__version__}"

SELF_CONTAINED = (".stl", ".obj", ".dae", ".ply")
"""Files whose vertices follow from their own bytes."""


class UnusableMeshError(Exception):
    """Why a mesh cannot be used; the shape is left out and the report says so."""


@dataclass(frozen=True)
class Mesh(Record):
    """What counts of a mesh: its hull, and points of it that may touch the ground."""

    hull: Hull | None
    """None if it is flat."""
    span: int
    """Vertices of the exact hull; of the mesh, where it is flat or has too many for that."""
    points: Array
    """(n, 3) hull vertices that are contacts with the ground [m]."""
    depth: float
    """How far the hull sticks out beyond theirs [m]."""

    @property
    def simplification(self) -> str:
        """What the hull lacks, in words; nothing if it is exact."""
        if self.hull is None or self.hull.error == 0.0:
            return ""
        return (
            f"hull of {len(self.hull.vertices)} vertices inside that of all {self.span}, which "
            f"sticks out by up to {1e3 * self.hull.error:.2g} mm"
        )


def mesh_of_file(file: Path, scale: Array) -> Mesh:
    """The mesh of a file; an UnusableMeshError says why there is none.

    What was computed of the same bytes before is taken from `hull_cache`.
    """
    try:
        size = file.stat().st_size
        if size > MAX_FILE:
            raise MeshSizeError(file, size, MAX_FILE)
        content = file.read_bytes()
    except OSError as error:
        raise UnusableMeshError(error.strerror or "unreadable") from error
    ending = file.suffix.lower()
    if ending not in SELF_CONTAINED:
        return mesh_of_vertices(_vertices_of_file(file, scale))
    key = _key(ending.encode(), scale.tobytes(), content)
    del content
    mesh = _unpacked(hull_cache.load(key))
    if mesh is None:
        mesh = _reduced(_vertices_of_file(file, scale))
        hull_cache.save(key, _packed(mesh))
    return mesh


def mesh_of_vertices(vertices: Array) -> Mesh:
    """The mesh of vertices (n, 3) [m]."""
    key = _key(b"vertices", vertices.tobytes())
    mesh = _unpacked(hull_cache.load(key))
    if mesh is None:
        mesh = _reduced(vertices)
        hull_cache.save(key, _packed(mesh))
    return mesh


def _vertices_of_file(file: Path, scale: Array) -> Array:
    try:
        vertices = coal.MeshLoader(coal.BV_AABB).load(str(file), scale).vertices()
    except (ValueError, RuntimeError) as error:
        raise UnusableMeshError(reader_words(error)) from error
    problem = vertex_problem(vertices)
    if problem:
        raise UnusableMeshError(problem)
    return np.array(vertices)


def vertex_problem(vertices: Array) -> str:
    """Why vertices (n, 3) are no mesh; nothing if they are."""
    if len(vertices) == 0:
        return "it has no vertices"
    return "" if np.isfinite(vertices).all() else "it has vertices that are not finite"


def reader_words(error: Exception) -> str:
    """The reader's own reason, without the place in its source and its hints."""
    noise = ("From file:", "in function:", "at line:", "message:", "Hint:", "Could not load")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(noise)) or "unreadable"


def _reduced(vertices: Array) -> Mesh:
    hull, outer = hull_of(vertices)
    points, depth = reduced_hull(outer)
    return Mesh(hull, len(outer), points, depth)


# ---------------------------------------------------------------- on disk
def _key(*parts: bytes) -> str:
    total = hashlib.sha256(VERSION.encode())
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


def _packed(mesh: Mesh) -> dict[str, NDArray[Any]]:
    arrays = {"points": mesh.points, "numbers": np.array([mesh.depth, mesh.span])}
    if mesh.hull is not None:
        arrays |= vars(mesh.hull) | {"error": np.array(mesh.hull.error)}
    return arrays


def _unpacked(arrays: dict[str, NDArray[Any]] | None) -> Mesh | None:
    if arrays is None:
        return None
    try:
        depth, span = arrays.pop("numbers").tolist()
        points = arrays.pop("points")
        error = float(arrays.pop("error", np.zeros(())))
        hull = Hull(**arrays, error=error) if arrays else None
    except (KeyError, TypeError, ValueError):
        return None
    return Mesh(hull, int(span), points, depth)
