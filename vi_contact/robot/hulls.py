"""Convex hulls of point sets: faces and edges, and fewer vertices where there are too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError, cKDTree

from vi_contact.robot.parts import Array, Record

MAX_VERTICES = 1024
"""A hull keeps no more; with evenly spread ones a ball is flat by 0.2 % of its radius."""

MAX_EXACT = 100_000
"""Points whose exact hull is sought: Qhull takes a second and 60 MB if all are on it."""

COPLANAR = 1e-7
"""Facets of a hull whose normals and offsets [m] differ by less are one face."""

MAX_HULL_POINTS = 32
"""Contact points of a mesh at most."""

DIRECTIONS = 1024
"""Directions in which a mesh is searched for hull vertices; about 6 degrees apart."""

HULL_TOLERANCE = 1e-6
"""A hull vertex that sticks out by less is left out [m]."""

SAMPLE = 20_000
"""Points among which the width of a simplification is sought first."""

BLOCK = 4_000_000
"""Numbers in one array of work."""


@dataclass(frozen=True)
class Hull(Record):
    """A convex polytope."""

    vertices: Array
    """(n, 3) [m]."""
    edges: NDArray[np.int64]
    """(e, 2) vertices, the lower one first, sorted."""
    loops: NDArray[np.int64]
    """(l,) vertices of all faces, one face after the other, anticlockwise seen from outside."""
    sides: NDArray[np.int64]
    """(f,) number of vertices of each face."""
    normals: Array
    """(f, 3) of the faces, outwards."""
    error: float = 0.0
    """How far the exact hull sticks out beyond this one, which lies inside it [m]."""

    @property
    def faces(self) -> tuple[tuple[int, ...], ...]:
        """Loops of vertices."""
        loops, ends = tuple(self.loops.tolist()), np.cumsum(self.sides).tolist()
        return tuple(loops[end - k : end] for end, k in zip(ends, self.sides.tolist(), strict=True))

    @property
    def triangles(self) -> NDArray[np.int64]:
        """(t, 3) the faces, each as a fan."""
        first = np.cumsum(self.sides) - self.sides
        fans = self.sides - 2
        start = np.repeat(first, fans)
        k = np.arange(fans.sum()) - np.repeat(np.cumsum(fans) - fans, fans)
        return np.column_stack(
            [self.loops[start], self.loops[start + k + 1], self.loops[start + k + 2]]
        )


def hull_of(points: Array) -> tuple[Hull | None, Array]:
    """The hull of points (n, 3), None if they are flat or too few; and the points that span it.

    Facets in one plane are one face. A hull of more than MAX_VERTICES is replaced by that of some
    of its vertices: it lies inside the exact one, which sticks out beyond it by at most `error`.
    """
    try:
        if len(points) > MAX_EXACT:
            points = _outer(points)
        if len(points) <= MAX_EXACT:
            exact = ConvexHull(points)
            if len(exact.vertices) <= MAX_VERTICES:
                return _merged(points, exact), points[exact.vertices]
            points = points[exact.vertices]
        kept = _simplified(points)
        hull = ConvexHull(kept)
        return _merged(kept, hull, _reach(points, kept, hull)), points
    except (QhullError, ValueError):
        return None, points


def _outer(points: Array) -> Array:
    """Without most of those that lie inside the hull."""
    directions = _directions()
    extreme = np.unique([int((points @ direction).argmax()) for direction in directions])
    planes = ConvexHull(points[extreme]).equations
    outside = np.zeros(len(points), dtype=bool)
    outside[extreme] = True
    for block in _blocks(len(points), len(planes)):
        outside[block] |= (points[block] @ planes[:, :3].T + planes[:, 3]).max(axis=1) > 0.0
    return points[outside]


def _directions() -> Array:
    """(26, 3) to the faces, edges and corners of a cube."""
    grid = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
    return grid[np.any(grid != 0.0, axis=1)]


def _simplified(points: Array) -> Array:
    """At most MAX_VERTICES of the points, whose hull comes near that of all.

    Qhull leaves out what is less than a width outside of it; for smooth surfaces the number that it
    keeps is inversely proportional to that width.
    """
    width = 1e-3 * float(np.ptp(points, axis=0).max())
    if len(points) > SAMPLE:
        few = points[:: len(points) // SAMPLE]
        width = _sought(few, width)[1]
    kept = _sought(points, width)[0]
    if len(kept) > MAX_VERTICES:
        raise ValueError("no width leaves so few vertices")
    return kept


def _sought(points: Array, width: float) -> tuple[Array, float]:
    """The points kept by a width that keeps nearly MAX_VERTICES, and that width."""
    best, best_width = points, width
    for _ in range(12):
        kept = points[ConvexHull(points, qhull_options=f"Qt W{width:.6e}").vertices]
        if len(kept) <= MAX_VERTICES:
            best, best_width = kept, width
            if len(kept) > 0.85 * MAX_VERTICES:
                break
        elif len(best) <= MAX_VERTICES:
            break
        width *= min(max(len(kept) / (0.93 * MAX_VERTICES), 0.5), 3.0)
    return best, best_width


def _reach(points: Array, kept: Array, hull: ConvexHull) -> float:
    """Largest distance of the points from the hull of those that were kept [m].

    No point is farther away than triangles near it are; the farthest by that measure are looked at
    first, and the search ends where it says that all others are nearer.
    """
    planes = hull.equations
    corners = kept[hull.simplices]
    rounding = 1e-12 * float(np.abs(points).max())
    tree = cKDTree(corners.mean(axis=1))
    bounds = np.concatenate(
        [_bounds(points[block], corners, tree) for block in _blocks(len(points), 200)]
    )
    order = np.argsort(-bounds)
    largest = 0.0
    for block in _blocks(len(points), len(planes)):
        if bounds[order[block.start]] <= largest:
            break
        some = points[order[block]]
        point, facet = np.nonzero(some @ planes[:, :3].T + planes[:, 3] > rounding)
        if len(point):
            # the nearest point of a polytope lies on a facet that faces the point
            distance = _to_triangles(some[point], corners[facet])
            first = np.flatnonzero(np.r_[True, np.diff(point) > 0])
            largest = max(largest, float(np.minimum.reduceat(distance, first).max()))
    return largest


def _bounds(points: Array, corners: Array, tree: cKDTree) -> Array:
    """(n,) distances of points (n, 3) from the nearest of the triangles whose middles are near."""
    near = tree.query(points, k=3)[1]
    return np.min([_to_triangles(points, corners[near[:, k]]) for k in range(3)], axis=0)


def _to_triangles(p: Array, corners: Array) -> Array:
    """(n,) distances of points (n, 3) from triangles (n, 3, 3)."""
    ends = np.roll(corners, -1, axis=1)
    sides = ends - corners
    away = p[:, None] - corners
    along = np.einsum("nij,nij->ni", away, sides) / np.einsum("nij,nij->ni", sides, sides)
    foot = away - np.clip(along, 0.0, 1.0)[..., None] * sides
    to_sides = np.sqrt(np.einsum("nij,nij->ni", foot, foot)).min(axis=1)
    normal = np.cross(sides[:, 0], sides[:, 1])
    above = (np.einsum("nij,nij->ni", np.cross(sides, away), normal[:, None]) >= 0.0).all(axis=1)
    height = np.abs(np.einsum("ni,ni->n", away[:, 0], normal)) / np.linalg.norm(normal, axis=1)
    return np.where(above, height, to_sides)


def _blocks(rows: int, columns: int) -> list[slice]:
    size = max(1, BLOCK // max(1, columns))
    return [slice(start, start + size) for start in range(0, rows, size)]


def _merged(points: Array, hull: ConvexHull, error: float = 0.0) -> Hull:
    """Facets in one plane become a face; faces stand in the order of their first facets."""
    vertices = points[hull.vertices]
    simplices = np.searchsorted(hull.vertices, hull.simplices)
    groups = _coplanar(hull.equations)
    normals = hull.equations[[group[0] for group in groups], :3]
    single = np.array([len(group) == 1 for group in groups])
    triangles = _turned(
        np.sort(simplices[[group[0] for group in groups]], axis=1), vertices, normals
    ).tolist()
    loops = [
        triangle
        if alone
        else _turned(np.unique(simplices[group])[None], vertices, normal[None])[0].tolist()
        for group, alone, triangle, normal in zip(groups, single, triangles, normals, strict=True)
    ]
    edges = np.concatenate(
        [np.column_stack([loop, loop[1:] + loop[:1]]) for loop in loops if len(loop) != 3]
        + [np.array([loop for loop in loops if len(loop) == 3], dtype=int).reshape(-1, 3)[:, pair]
           for pair in ([0, 1], [1, 2], [2, 0])]
    )  # fmt: skip
    return Hull(
        vertices.copy(),
        np.unique(np.sort(edges, axis=1), axis=0).astype(np.int64),
        np.array([vertex for loop in loops for vertex in loop], dtype=np.int64),
        np.array([len(loop) for loop in loops], dtype=np.int64),
        normals,
        error,
    )


def _coplanar(planes: Array) -> list[list[int]]:
    """Facets whose planes (f, 4) are those of the first of their group."""
    near: dict[int, list[int]] = {}
    pairs = cKDTree(planes).query_pairs(COPLANAR, p=np.inf, output_type="ndarray")
    for i, j in pairs.tolist():
        near.setdefault(i, []).append(j)
    groups: list[list[int]] = []
    taken: set[int] = set()
    for i in range(len(planes)):
        if i not in taken:
            groups.append([i, *(j for j in sorted(near.get(i, ())) if j not in taken)])
            taken.update(groups[-1])
    return groups


def _turned(corners: NDArray[np.int64], vertices: Array, normals: Array) -> NDArray[np.int64]:
    """Vertices (f, k) of faces, anticlockwise about the normals (f, 3)."""
    p = vertices[corners]
    away = p - p.mean(axis=1, keepdims=True)
    x = away[:, 0]
    y = np.cross(normals, x)
    angles = np.arctan2(np.einsum("fki,fi->fk", away, y), np.einsum("fki,fi->fk", away, x))
    return np.take_along_axis(corners, np.argsort(angles, axis=1), axis=1)


# ---------------------------------------------------------------- contact points
def reduced_hull(vertices: Array) -> tuple[Array, float]:
    """At most 32 hull vertices, and how far the hull reaches beyond theirs [m].

    Starts from the extremes along the axes and always adds the vertex that sticks out farthest,
    over evenly spread directions.
    """
    directions = _even_directions(DIRECTIONS)
    farthest, outer = _farthest(vertices, directions)
    chosen = list(dict.fromkeys(farthest[:6].tolist()))
    inner = (vertices[chosen] @ directions.T).max(axis=0)
    while len(chosen) < MAX_HULL_POINTS and (outer - inner).max() > HULL_TOLERANCE:
        chosen.append(int(farthest[(outer - inner).argmax()]))
        inner = np.maximum(inner, directions @ vertices[chosen[-1]])
    depth = float((outer - inner).max())
    return vertices[chosen], depth if depth > HULL_TOLERANCE else 0.0


def _farthest(vertices: Array, directions: Array) -> tuple[NDArray[np.int64], Array]:
    """(d,) the vertex farthest along each direction, the first of several, and how far it is."""
    blocks = _blocks(len(vertices), len(directions))
    farthest = np.zeros(len(directions), dtype=np.int64)
    outer = np.full(len(directions), -np.inf)
    for block in blocks:
        reach = directions @ vertices[block].T
        here = reach.argmax(axis=1)
        most = reach[np.arange(len(directions)), here]
        farther = most > outer
        farthest[farther] = here[farther] + block.start
        outer[farther] = most[farther]
    return farthest, outer


def _even_directions(count: int) -> Array:
    """(count, 3) unit vectors on a golden spiral, with the six axes among them."""
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    azimuth = np.pi * (1.0 + 5.0**0.5) * k
    radius = np.sqrt(1.0 - z * z)
    spiral = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), z], axis=1)
    return np.vstack([np.eye(3), -np.eye(3), spiral])
