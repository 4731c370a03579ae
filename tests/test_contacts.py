"""Contacts: declared, and derived from collision shapes."""

import struct

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support import example
from urdf_text import INERTIAL, extension, joint, link, robot, write

import vi_contact as vc
from vi_contact.robot.hulls import MAX_HULL_POINTS, reduced_hull


def shape(geometry, origin="0 0 0"):
    return f'<collision><origin xyz="{origin}"/><geometry>{geometry}</geometry></collision>'


def load(tmp_path, *shapes, extra="", **options):
    text = robot(
        link("base", INERTIAL),
        link("foot", INERTIAL + "".join(shapes)),
        joint("hinge", "base", "foot"),
        extra,
    )
    return vc.load_robot(write(tmp_path, text), **options)


def points(robot_):
    return np.array([contact.p_BC for contact in robot_.contacts])


def cube_stl(path, half=0.5):
    """A binary STL of a cube, twelve triangles."""
    corners = half * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))]
    with path.open("wb") as file:
        file.write(b"\0" * 80 + struct.pack("<I", len(triangles)))
        for triangle in triangles:
            values = [0.0, 0.0, 0.0, *corners[list(triangle)].ravel()]
            file.write(struct.pack("<12fH", *values, 0))


def test_sphere(tmp_path):
    [contact] = load(tmp_path, shape('<sphere radius="0.2"/>', "1 2 3")).contacts
    assert (contact.name, contact.link, contact.radius) == ("foot", "foot", 0.2)
    np.testing.assert_allclose(contact.p_BC, [1.0, 2.0, 3.0])
    assert contact.friction is None


def test_box_has_its_eight_corners(tmp_path):
    loaded = load(tmp_path, shape('<box size="2 4 6"/>'))
    np.testing.assert_allclose(np.abs(points(loaded)), np.tile([1.0, 2.0, 3.0], (8, 1)))
    assert len(np.unique(points(loaded), axis=0)) == 8
    assert loaded.contact_names[:2] == ("foot_0", "foot_1")
    assert not loaded.report.approximated


@pytest.mark.parametrize(
    ("geometry", "count", "radius"),
    [
        ('<sphere radius="0"/>', 1, 0.0),
        ('<box size="2 4 0"/>', 4, 0.0),
        ('<box size="2 0 0"/>', 2, 0.0),
        ('<box size="0 0 0"/>', 1, 0.0),
        ('<cylinder radius="0.5" length="0"/>', 8, 0.0),
        ('<cylinder radius="0" length="2"/>', 2, 0.0),
        ('<capsule radius="0" length="2"/>', 2, 0.0),
        ('<capsule radius="0.3" length="0"/>', 1, 0.3),
        ('<mesh filename="cube.stl" scale="1 1 0"/>', 4, 0.0),
    ],
)
def test_shapes_without_volume_touch(tmp_path, geometry, count, radius):
    """As a point, a line, a disc or a plate, with no point twice; and come to rest on them."""
    cube_stl(tmp_path / "cube.stl")
    loaded = load(tmp_path, shape(geometry))
    assert len(loaded.contacts) == len(np.unique(points(loaded), axis=0)) == count
    assert all(contact.radius == radius for contact in loaded.contacts)
    assert any("no extent" in finding.message for finding in loaded.report.approximated)
    with pytest.raises(vc.errors.StrictImportError, match="no extent"):
        load(tmp_path, shape(geometry), strict=True)
    q = loaded.on_ground(loaded.neutral(), height=0.01)  # falls for 45 ms
    simulator = vc.Simulator(loaded, 0.01)
    simulator.reset(q)
    trajectory = simulator.run(0.2)
    gaps = np.array([record.gap for record in trajectory.contacts.values()])
    assert gaps.min() > -1e-9  # rounding of positions of metres
    assert any(record.force.any() for record in trajectory.contacts.values())


def test_capsule_is_two_spheres(tmp_path):
    """pinocchio's parser knows no capsule, and drops the link's other shapes with it."""
    loaded = load(
        tmp_path, shape('<box size="1 1 1"/>'), shape('<capsule radius="0.1" length="2"/>')
    )
    assert len(loaded.contacts) == 10
    ends = [contact for contact in loaded.contacts if contact.source == "capsule"]
    np.testing.assert_allclose([end.p_BC for end in ends], [[0, 0, -1], [0, 0, 1]])
    assert {end.radius for end in ends} == {0.1}


def test_cylinder_has_points_on_both_rims(tmp_path):
    loaded = load(tmp_path, shape('<cylinder radius="0.3" length="2"/>'))
    found = points(loaded)
    np.testing.assert_allclose(np.linalg.norm(found[:, :2], axis=1), 0.3)
    assert sorted(set(found[:, 2])) == [-1.0, 1.0]
    assert any("rim points" in finding.message for finding in loaded.report.approximated)


@pytest.mark.parametrize("address", ["{file}", "meshes/cube.stl", "package://pack/meshes/cube.stl"])
def test_mesh_paths(tmp_path, address):
    folder = tmp_path / "pack"
    (folder / "meshes").mkdir(parents=True)
    cube_stl(folder / "meshes" / "cube.stl")
    address = address.format(file=folder / "meshes" / "cube.stl")
    loaded = load(folder, shape(f'<mesh filename="{address}" scale="2 2 2"/>'))
    np.testing.assert_allclose(np.abs(points(loaded)), 1.0)
    assert len(loaded.contacts) == 8
    assert not loaded.report.approximated  # eight hull vertices are all there are


def test_package_dirs_are_searched(tmp_path):
    (tmp_path / "elsewhere" / "pack").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    cube_stl(tmp_path / "elsewhere" / "pack" / "cube.stl")
    mesh = shape('<mesh filename="package://pack/cube.stl"/>')
    assert load(tmp_path / "here", mesh).contacts == ()
    for folders in ([tmp_path / "elsewhere"], tmp_path / "elsewhere", str(tmp_path / "elsewhere")):
        assert len(load(tmp_path / "here", mesh, package_dirs=folders).contacts) == 8


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nothing of the kind", "cannot be used"),
        ("v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "not finite"),
    ],
)
@pytest.mark.parametrize("role", ["collision", "visual"])
def test_unreadable_mesh_costs_its_shape_only(tmp_path, content, reason, role):
    (tmp_path / "broken.obj").write_text(content)
    broken = shape('<mesh filename="broken.obj"/>').replace("collision", role)
    capsule = shape('<capsule radius="0.1" length="2"/>').replace("collision", role)
    loaded = load(tmp_path, broken, capsule)
    [finding] = [f for f in loaded.report.ignored if "broken.obj" in f.message]
    assert reason in finding.message
    assert finding.element == f"link 'foot'/{role}"
    assert finding.physics is (role == "collision")
    model = loaded.collision_model if role == "collision" else loaded.visual_model
    assert [part.geometry.getNodeType().name for part in model.geometryObjects] == ["GEOM_CAPSULE"]


def test_mesh_address_with_an_encoded_blank(tmp_path):
    (tmp_path / "my meshes").mkdir()
    cube_stl(tmp_path / "my meshes" / "cube.stl")
    assert len(load(tmp_path, shape('<mesh filename="my%20meshes/cube.stl"/>')).contacts) == 8


def test_hull_of_a_ball_is_reduced_evenly():
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(5000, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    hull, depth = reduced_hull(ball)
    assert len(hull) == MAX_HULL_POINTS
    assert 0.05 < depth < 0.2  # 32 points on a unit sphere: caps of about 20 degrees, 1 - cos 20
    assert np.abs(hull.mean(axis=0)).max() < 0.1


def test_hull_keeps_the_corners_of_a_box_with_many_vertices():
    rng = np.random.default_rng(0)
    inside = rng.uniform(-0.99, 0.99, size=(2000, 3))
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    hull, depth = reduced_hull(np.vstack([inside, corners]))
    assert depth == 0.0
    assert len(np.unique(np.vstack([hull, corners]), axis=0)) == len(np.unique(hull, axis=0))


def test_declared_contacts_replace_derived_ones(tmp_path):
    block = extension('<contact name="toe" link="foot" xyz="0 0 -1" radius="0.1" friction="0.4"/>')
    [contact] = load(tmp_path, shape('<box size="1 1 1"/>'), extra=block).contacts
    assert (contact.name, contact.radius, contact.friction) == ("toe", 0.1, 0.4)


def test_declared_contacts_have_the_friction_of_their_link(tmp_path):
    block = extension('<contact name="toe" link="foot"/>')
    extra = block + '<gazebo reference="foot"><mu1>0.7</mu1></gazebo>'
    [contact] = load(tmp_path, extra=extra).contacts
    assert contact.friction == 0.7


def test_declared_contact_that_cannot_move_is_said(tmp_path):
    block = extension('<contact name="toe" link="base"/>')
    loaded = load(tmp_path, extra=block, base="fixed")
    assert loaded.contacts == ()
    [finding] = [f for f in loaded.report.ignored if f.element == "contact 'toe'"]
    assert "fixed to the world" in finding.message


def test_contacts_can_be_left_out(tmp_path):
    assert load(tmp_path, shape('<box size="1 1 1"/>'), contacts="none").contacts == ()


def test_shapes_of_a_fixed_base_make_no_contacts(tmp_path):
    text = robot(
        link("base", INERTIAL + shape('<box size="1 1 1"/>')),
        link("foot", INERTIAL + shape('<sphere radius="1"/>')),
        joint("hinge", "base", "foot"),
    )
    file = write(tmp_path, text)
    assert len(vc.load_robot(file, base="free").contacts) == 9
    assert len(vc.load_robot(file, base="fixed").contacts) == 1


@pytest.mark.parametrize(
    ("extra", "inside", "friction"),
    [
        ('<gazebo reference="foot"><mu1>0.7</mu1><mu2>0.7</mu2></gazebo>', "", 0.7),
        ('<gazebo reference="foot"><mu1 value="0.6"/></gazebo>', "", 0.6),
        ("", '<contact><lateral_friction value="0.9"/></contact>', 0.9),
        ("", "", None),
    ],
    ids=["gazebo", "old gazebo", "bullet", "ground"],
)
def test_friction(tmp_path, extra, inside, friction):
    loaded = load(tmp_path, inside, shape('<sphere radius="1"/>'), extra=extra)
    assert loaded.contacts[0].friction == friction
    assert not loaded.report.strict_findings


def test_quadruped_feet_are_spheres_of_the_file():
    loaded = vc.load_robot(example("a1.urdf"))
    feet = [contact for contact in loaded.contacts if contact.link.endswith("_foot")]
    assert sorted(contact.name for contact in feet) == ["FL_foot", "FR_foot", "RL_foot", "RR_foot"]
    assert {contact.source for contact in feet} == {"sphere"}


@pytest.mark.parametrize("name", ["fly_hopper", "fly_hopper_rail", "jumper", "jumper_free"])
@pytest.mark.parametrize("height", [0.0, -0.3])
def test_robot_is_put_on_the_ground(name, height):
    loaded = vc.load_robot(name)
    q = loaded.on_ground(loaded.neutral(), height)
    state = loaded.to_maximal(q)
    [foot] = loaded.contacts
    R_WB = Rotation.from_quat(state.quat_WB_xyzw[foot.body]).as_matrix()
    centre = state.p_WB[foot.body] + R_WB @ foot.p_BC
    assert centre[2] - foot.radius == pytest.approx(height, abs=1e-14)
    assert loaded.loop_error(q) < 1e-12


@pytest.mark.parametrize("name", ["fly_hopper", "jumper"])
def test_robot_is_put_on_a_slope(name):
    ground = vc.Ground(normal=(0.6, 0.2, 2.0), height=0.1)
    sim = vc.Simulator(vc.load_robot(name), ground=ground)
    q = sim.robot.on_ground(sim.robot.neutral(), ground.height, ground.normal)
    assert q == pytest.approx(sim.reset().q, abs=1e-14)
    sim.reset(q)
    gap = sim.run(0.01).contacts["foot"].gap[0]
    assert gap == pytest.approx(0.0, abs=1e-14)
    low = sim.robot.neutral()
    low[2 if name == "fly_hopper" else 0] -= 5.0
    advice = r"robot\.on_ground\(q, sim\.ground\.height, sim\.ground\.normal\)"
    with pytest.raises(vc.errors.PenetrationError, match=advice):
        sim.reset(low)


def test_a_slope_that_no_slide_reaches():
    jumper = vc.load_robot("jumper")  # its slide is vertical
    with pytest.raises(vc.errors.PlacementError, match="slide"):
        jumper.on_ground(jumper.neutral(), normal=(1.0, 0.0, 0.0))
    with pytest.raises(vc.errors.ArrayError, match="normal"):
        jumper.on_ground(jumper.neutral(), normal=(0.0, 0.0, 0.0))


def test_a_fixed_robot_below_the_ground_is_not_sent_to_on_ground():
    hopper = vc.load_robot("fly_hopper", base="fixed")
    with pytest.raises(vc.errors.PenetrationError, match="change its configuration, lower") as told:
        vc.Simulator(hopper).reset(hopper.neutral())
    assert "on_ground" not in str(told.value)


def test_robot_that_cannot_be_put_on_the_ground(tmp_path):
    walker = vc.load_robot("walker")  # its slide is horizontal
    with pytest.raises(vc.errors.PlacementError, match="vertical slide"):
        walker.on_ground(walker.neutral())
    bare = load(tmp_path)
    with pytest.raises(vc.errors.PlacementError, match="no contacts"):
        bare.on_ground(bare.neutral())
