"""Convex hulls of meshes: bounded, made once per file, kept on disk, never trusted blindly."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coal
import numpy as np
import pytest
from shapes import body_link
from urdf_text import INERTIAL, joint, link, robot, write

import vi_contact as vc
from vi_contact.robot import hull_cache, meshes
from vi_contact.robot.convex import convex_of
from vi_contact.robot.hulls import MAX_VERTICES, Hull, hull_of

ONE = np.ones(3)
AXES = np.array([0.1, 0.05, 0.03])
"""Of the ellipsoid [m]."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of its own for every test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("VI_CONTACT_CACHE", str(folder))
    return folder


@pytest.fixture
def made(monkeypatch):
    """Counts the hulls that were computed."""
    calls: list[int] = []

    def count(points):
        calls.append(len(points))
        return hull_of(points)

    monkeypatch.setattr(meshes, "hull_of", count)
    return calls


def ellipsoid(count: int) -> np.ndarray:
    points = np.random.default_rng(0).normal(size=(count, 3))
    return AXES * points / np.linalg.norm(points, axis=1, keepdims=True)


def write_stl(file: Path, points: np.ndarray) -> Path:
    """The triangles of the exact hull."""
    from scipy.spatial import ConvexHull

    triangles = points[ConvexHull(points).simplices].astype(np.float32)
    rows = np.zeros(len(triangles), dtype=[("n", "<f4", 3), ("v", "<f4", (3, 3)), ("a", "<u2")])
    rows["v"] = triangles
    file.write_bytes(bytes(80) + np.uint32(len(triangles)).tobytes() + rows.tobytes())
    return file


def two_arms(folder: Path, count: int = 200) -> vc.Robot:
    """Two links with the same mesh, a third with it at another scale."""
    write_stl(folder / "arm.stl", ellipsoid(count))
    shape = '<collision><geometry><mesh filename="arm.stl"{}/></geometry></collision>'
    body, large = INERTIAL + shape.format(""), INERTIAL + shape.format(' scale="2 2 2"')
    parts = [link("base", body), link("arm", body), link("hand", large)]
    parts += [joint("j1", "base", "arm"), joint("j2", "arm", "hand")]
    return vc.load_robot(write(folder, robot(*parts)), base="free")


def same(first: Hull, second: Hull) -> bool:
    return all(np.array_equal(vars(first)[name], vars(second)[name]) for name in vars(first))


# ------------------------------------------------------------------------------ the hull itself
@pytest.mark.parametrize("count", [200, MAX_VERTICES])
def test_a_hull_below_the_bound_is_exact(count):
    points = ellipsoid(count)
    hull, outer = hull_of(points)
    assert hull.error == 0.0
    np.testing.assert_array_equal(hull.vertices, points)
    np.testing.assert_array_equal(outer, points)
    # Euler's formula: every edge has two faces
    assert len(hull.vertices) - len(hull.edges) + len(hull.sides) == 2


@pytest.mark.parametrize("count", [MAX_VERTICES + 100, 7000, 120_000])
def test_a_large_hull_is_bounded_and_its_error_true(count):
    points = ellipsoid(count)
    hull, _ = hull_of(points)
    assert 0.8 * MAX_VERTICES < len(hull.vertices) <= MAX_VERTICES
    # its vertices are some of the points, so it lies inside the exact hull
    assert {tuple(vertex) for vertex in hull.vertices} <= {tuple(point) for point in points}
    # measured apart, by the collision library: no point is farther outside than it says
    polytope = convex_of(meshes.Mesh(hull, count, points[:1], 0.0)).geometry
    grain = 1e-9
    ball, here = coal.Sphere(grain), coal.Transform3s()
    some = points[:: max(1, count // 3000)]
    far = [
        coal.distance(polytope, here, ball, coal.Transform3s(np.eye(3), p),
                      coal.DistanceRequest(), coal.DistanceResult())
        for p in some
    ]  # fmt: skip
    # the library's tolerance is 1e-6 m; it looks at some of the points only
    assert hull.error >= max(far) - 2e-6
    if count <= 7000:
        assert hull.error <= max(far) + 0.5 * hull.error + 2e-6
    # 1024 even points on a ball are flat by 0.2 %; an ellipsoid of these axes by 0.5 %
    assert 0.0 < hull.error < 5e-3 * AXES.max()


def test_faces_in_one_plane_are_one(tmp_path):
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 5)] * 3), axis=-1).reshape(-1, 3)
    hull, _ = hull_of(grid)
    assert (len(hull.vertices), len(hull.edges), len(hull.sides)) == (8, 12, 6)
    assert len(hull.triangles) == 12


def test_bodies_do_not_interpenetrate_more_than_the_error(tmp_path):
    """A ball presses an ellipsoid of 5000 vertices to the side; the true hulls are compared."""
    points = ellipsoid(5000)
    rock = vc.Obstacle.mesh(points, name="rock")
    ball = vc.load_robot(
        write(tmp_path, robot(link("world", ""), body_link("ball", '<sphere radius="0.05"/>', 1.0)))
    )
    sim = vc.Simulator(ball, 0.005, ground=None, obstacles=[rock])
    sim.reset([0.004, 0.002, 0.1, 0.0, 0.0, 0.0, 1.0])
    trajectory = sim.run(0.3)
    assert np.abs(trajectory.contacts["ball/rock"].force).max() > 1.0
    [note] = sim.body_pairs.notes
    error = 1e-3 * float(note.split()[-2])  # "... sticks out by up to 0.2 mm"
    assert 0.0 < error < 1e-3
    # of the vertices of the exact hull from the ball, over all steps
    depth = 0.05 - min(np.linalg.norm(points - q[:3], axis=1).min() for q in trajectory.q)
    assert depth < 1.05 * error  # the note has two digits


# ------------------------------------------------------------------------------ once per file
def test_a_file_is_read_once(tmp_path, made, monkeypatch):
    monkeypatch.setenv("VI_CONTACT_CACHE", "off")
    arms = two_arms(tmp_path)
    sim = vc.Simulator(arms, ground=None, self_collision=True)
    assert len(made) == 2  # of three links, at two scales
    first, second, _ = sim.body_pairs.shapes
    assert first.convex is second.convex
    assert len(arms.contacts) == 3 * 32
    assert len(made) == 2


def test_robots_without_bodies_that_meet_make_no_polytopes(tmp_path, monkeypatch):
    def refuse(geometry):
        raise AssertionError("nobody needs it")

    monkeypatch.setattr("vi_contact.robot.pairs.convex_of", refuse)
    vc.Simulator(two_arms(tmp_path))


# ------------------------------------------------------------------------------ on disk
def test_what_was_kept_is_the_same_to_the_bit(tmp_path, cache, made):
    file = write_stl(tmp_path / "a.stl", ellipsoid(3000))
    first = meshes.mesh_of_file(file, ONE)
    second = meshes.mesh_of_file(file, ONE)
    assert len(made) == 1 and len(list(cache.iterdir())) == 1
    assert same(first.hull, second.hull)
    np.testing.assert_array_equal(first.points, second.points)
    assert (first.depth, first.span) == (second.depth, second.span)
    flat = np.zeros((4, 3))
    assert meshes.mesh_of_vertices(flat).hull is meshes.mesh_of_vertices(flat).hull is None
    assert len(made) == 2


@pytest.mark.parametrize("change", ["scale", "content", "version"])
def test_what_was_kept_of_others_is_not_used(tmp_path, made, monkeypatch, change):
    file = write_stl(tmp_path / "a.stl", ellipsoid(50))
    meshes.mesh_of_file(file, ONE)
    scale = 2.0 * ONE if change == "scale" else ONE
    if change == "content":
        write_stl(file, 2.0 * ellipsoid(50))
    if change == "version":
        monkeypatch.setattr(meshes, "VERSION", "another")
    mesh = meshes.mesh_of_file(file, scale)
    assert len(made) == 2
    assert np.ptp(mesh.hull.vertices[:, 0]) > (0.1 if change == "version" else 0.3)


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "bit", "foreign", "renamed", "pickle", "folder"]
)
def test_a_broken_file_is_computed_again(tmp_path, cache, made, damage):
    file = write_stl(tmp_path / "a.stl", ellipsoid(100))
    first = meshes.mesh_of_file(file, ONE)
    [kept] = cache.iterdir()
    content = bytearray(kept.read_bytes())
    if damage == "bit":
        content[len(content) // 2] ^= 1
        kept.write_bytes(content)
    elif damage == "renamed":  # a good file, of another mesh
        meshes.mesh_of_file(write_stl(tmp_path / "b.stl", ellipsoid(60)), ONE)
        made.clear()
        made.append(0)
        [other] = set(cache.iterdir()) - {kept}
        kept.write_bytes(other.read_bytes())
    elif damage == "pickle":
        np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
        kept.write_bytes((tmp_path / "x.npy").read_bytes())
    elif damage == "folder":
        kept.unlink()
        kept.mkdir()
    else:
        kept.write_bytes({"empty": b"", "cut": bytes(content[:-9]), "foreign": b"hello"}[damage])
    again = meshes.mesh_of_file(file, ONE)
    assert len(made) == 2
    assert same(first.hull, again.hull)
    if damage != "folder":
        meshes.mesh_of_file(file, ONE)
        assert len(made) == 2  # it was written anew


def test_the_cache_can_be_switched_off(tmp_path, made, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setenv("VI_CONTACT_CACHE", "off")
    file = write_stl(tmp_path / "a.stl", ellipsoid(50))
    for _ in range(2):
        meshes.mesh_of_file(file, ONE)
    assert len(made) == 2 and not home.exists()
    monkeypatch.delenv("VI_CONTACT_CACHE")
    for _ in range(2):
        meshes.mesh_of_file(file, ONE)
    assert len(made) == 3
    assert [path.suffix for path in (home / "vi_contact" / "meshes").iterdir()] == [".npz"]
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert hull_cache.folder() == tmp_path / "me" / ".cache" / "vi_contact" / "meshes"


def test_a_folder_that_cannot_be_written_does_not_matter(tmp_path, made, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("VI_CONTACT_CACHE", str(tmp_path / "file" / "below"))
    file = write_stl(tmp_path / "a.stl", ellipsoid(50))
    for _ in range(2):
        meshes.mesh_of_file(file, ONE)
    assert len(made) == 2
    monkeypatch.setenv("VI_CONTACT_CACHE", str(tmp_path / "full"))

    def full(source: object, target: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    meshes.mesh_of_file(file, ONE)
    assert list((tmp_path / "full").iterdir()) == []


def test_several_write_at_once(tmp_path, cache):
    file = write_stl(tmp_path / "a.stl", ellipsoid(300))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: meshes.mesh_of_file(file, ONE), range(16)))
    assert all(same(mesh.hull, found[0].hull) for mesh in found)
    assert [path.suffix for path in cache.iterdir()] == [".npz"]


# ------------------------------------------------------------------------------ what is said
def test_the_notes_say_by_how_much_a_hull_is_simplified(tmp_path):
    arms = two_arms(tmp_path, 3000)
    sim = vc.Simulator(arms, ground=None, self_collision=True)
    for name in ("base", "arm", "hand"):
        [note] = [note for note in sim.body_pairs.notes if f"'{name}'" in note]
        assert "inside that of all" in note and note.endswith("mm")
    stand = vc.Obstacle.from_urdf(tmp_path / "robot.urdf", name="stand")
    assert all("inside that of all" in note for note in stand.notes) and len(stand.notes) == 3


def test_a_mesh_file_that_is_too_long_is_refused(tmp_path, monkeypatch):
    arms = two_arms(tmp_path)
    monkeypatch.setattr(meshes, "MAX_FILE", 1000)
    with pytest.raises(vc.errors.MeshSizeError, match=r"arm.stl.*MB.*fewer triangles"):
        _ = arms.contacts


def test_a_mesh_that_cannot_be_read_is_said_once(tmp_path, caplog):
    arms = two_arms(tmp_path)
    (tmp_path / "arm.stl").write_text("no mesh")
    with caplog.at_level(logging.WARNING, logger="vi_contact"):
        assert arms.contacts == ()
        assert arms.collision_model.ngeoms == 0
    assert len(caplog.records) == 1
    assert len(arms.missing_meshes) == 3
