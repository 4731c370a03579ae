"""Bodies that meet each other and obstacles: momentum, energy, gaps, friction, rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shapes import STEPS, G, body_link, box, mechanism, on_slope, slope, sphere
from support import example
from urdf_text import INERTIAL, joint, link, loop_square, robot, write

import vi_contact as vc
from vi_contact.robot.convex import convex_of
from vi_contact.simulation.replay import load_failure, save_failure

NO_TURN = [0.0, 0.0, 0.0, 1.0]
TOUCHING = 1e-9
"""Penetration [m] that the project allows; the solver's own tolerance is 1e-12 m."""

SHAPES = {
    "sphere": '<sphere radius="0.1"/>',
    "capsule": '<capsule radius="0.06" length="0.2"/>',
    "box": '<box size="0.2 0.15 0.1"/>',
    "cylinder": '<cylinder radius="0.08" length="0.15"/>',
}


def place(*positions: list[float]) -> np.ndarray:
    """q of free bodies that are not turned."""
    return np.concatenate([[*position, *NO_TURN] for position in positions])


def deepest(trajectory: vc.Trajectory) -> float:
    return -min(float(record.gap.min()) for record in trajectory.contacts.values())


# ------------------------------------------------------------------------------ impacts in space
@pytest.mark.parametrize("second", SHAPES)
@pytest.mark.parametrize("first", SHAPES)
def test_collisions_keep_momentum_and_lose_energy(tmp_path, first, second):
    scene = mechanism(tmp_path, a=(SHAPES[first], 1.0), b=(SHAPES[second], 3.0))
    for time_step in (0.02, 0.005):
        sim = vc.Simulator(scene, time_step, ground=None, gravity=(0.0, 0.0, 0.0))
        spin = np.array([3.0, 2.0, 1.0, 0.0, 1.0, -1.0])
        v = np.concatenate([[1.0, 0.0, 0.0], spin[:3], [-1.0, 0.0, 0.0], spin[3:]])
        sim.reset(place([0.0, 0.0, 0.0], [0.5, 0.04, 0.03]), v)
        start = sim.snapshot()
        kinetic = []
        for _ in range(round(0.6 / time_step)):
            sim.step()
            kinetic.append(sim._stepper.interval_energy())
        sim.restore(start)
        trajectory = sim.run(0.6)
        assert len(trajectory.impacts) >= 1
        assert np.abs(trajectory.contacts["a/b"].force).max() > 1.0
        for momentum in (trajectory.linear_momentum, trajectory.angular_momentum):
            # round-off of 120 steps; momenta are of the order 3 N s
            assert np.abs(momentum - momentum[0]).max() < 1e-13
        assert deepest(trajectory) < TOUCHING
        # over the steps, of 2 J; an edge that slides along a curve turns, to second order
        assert np.diff(kinetic).max() < 2e-3 * kinetic[0]
        assert kinetic[-1] < 0.6 * kinetic[0]
        assert np.abs(trajectory.ledger.defect).max() < 1e-9


def test_balls_collide_as_the_formula_says(tmp_path):
    ball = '<sphere radius="0.1"/>'
    scene = mechanism(tmp_path, a=(ball, 1.0), b=(ball, 3.0))
    h = 0.002
    sim = vc.Simulator(scene, h, ground=vc.Ground(friction=0.0, height=-9.0), gravity=(0, 0, 0))
    offset = 0.1  # the line of centres stands at 30 degrees to the motion
    sim.reset(place([0.0, 0.0, 0.0], [0.5, offset, 0.0]), [1.0, *[0.0] * 11])
    trajectory = sim.run(0.6)
    force = trajectory.contacts["a/b"].force
    step = int(np.flatnonzero(force.any(axis=1))[0])
    assert trajectory.impacts == [(pytest.approx(trajectory.time[step + 1]), "a/b")]
    # the first step leads to the contact, the second ends the approach
    impulse = -force[step : step + 2].sum(axis=0) * h
    n = impulse / np.linalg.norm(impulse)  # from a to b
    # without friction and inelastic; of first order, for the normal is that of a node near by
    assert np.linalg.norm(impulse) == pytest.approx(n[0] / (1.0 / 1.0 + 1.0 / 3.0), rel=0.02)
    v_a, v_b = trajectory.v_WB[step + 2]
    assert v_a @ n == pytest.approx(v_b @ n, rel=0.02)
    assert np.abs(trajectory.w_WB_B).max() < 1e-9  # 1e-10 N s of tolerance over 4e-3 kg m2


# ------------------------------------------------------------------------------ rest
@pytest.mark.parametrize("time_step", STEPS)
def test_stack_of_boxes_stands_still(tmp_path, time_step):
    sizes = ("0.4 0.3 0.2", "0.3 0.3 0.2", "0.3 0.3 0.2", "0.1 0.2 0.2")
    boxes = {name: (f'<box size="{size}"/>', 2.0) for name, size in zip("abcd", sizes, strict=True)}
    sim = vc.Simulator(mechanism(tmp_path, **boxes), time_step)
    start = sim.reset(place([0, 0, 0.1], [0.02, 0.01, 0.3], [0.02, 0.01, 0.5], [0, 0, 0.7]))
    trajectory = sim.run(5.0)
    # one tolerance of 1e-12 m per contact of the stack in all, not one per step
    assert np.abs(trajectory.q - start.q).max() < 2e-11
    assert np.abs(trajectory.v).max() < 1e-8
    assert deepest(trajectory) < TOUCHING
    for k, name in enumerate(("a/b", "b/c", "c/d")):
        weight = (3 - k) * 2.0 * G
        np.testing.assert_allclose(trajectory.contacts[name].force[-1], [0, 0, -weight], atol=1e-4)
        assert not trajectory.contacts[name].sliding.any()


@pytest.mark.parametrize("masses", [(1e-3, 1e3), (1e3, 1e-3)], ids=["heavy on top", "light on top"])
@pytest.mark.parametrize("time_step", STEPS)
def test_mass_ratio_of_a_million_stands_still(tmp_path, time_step, masses):
    low, top = masses
    scene = mechanism(
        tmp_path, low=('<box size="0.4 0.3 0.2"/>', low), top=('<box size="0.3 0.3 0.2"/>', top)
    )
    sim = vc.Simulator(scene, time_step)
    start = sim.reset(place([0, 0, 0.1], [0.02, 0.01, 0.3]))
    trajectory = sim.run(5.0)
    assert np.abs(trajectory.q - start.q).max() < 2e-11  # as the stack
    assert np.abs(trajectory.v).max() < 1e-8  # no jitter
    assert trajectory.methods[1:].max() == 0 and trajectory.parts.max() == 1
    assert trajectory.contacts["low/top"].force[-1, 2] == pytest.approx(-top * G, rel=1e-6)


def test_tossed_boxes_come_to_rest(tmp_path):
    boxes = dict.fromkeys("abc", ('<box size="0.3 0.2 0.1"/>', 1.0))
    sim = vc.Simulator(mechanism(tmp_path, **boxes), 0.01, ground=vc.Ground(friction=0.5))
    rng = np.random.default_rng(1)
    for _ in range(2):
        q = place([0.0, 0.0, 0.3], [0.05, 0.02, 0.7], [-0.05, 0.0, 1.1]).reshape(3, 7)
        q[:, 3:] = rng.normal(size=(3, 4))
        q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
        sim.reset(q.ravel(), rng.normal(size=18))
        trajectory = sim.run(5.0)
        assert deepest(trajectory) < TOUCHING
        assert np.abs(trajectory.v[-1]).max() < 1e-8
        total = sum(
            trajectory.contacts[f"{name}_{k}"].force[-1] for name in "abc" for k in range(8)
        )
        np.testing.assert_allclose(total, [0.0, 0.0, 3.0 * G], atol=1e-3)  # tolerances over h


# ------------------------------------------------------------------------------ obstacles
@pytest.mark.parametrize("time_step", STEPS)
def test_box_on_a_tilted_obstacle(tmp_path, time_step):
    angle = 0.3
    n = np.array([np.sin(angle), 0.0, np.cos(angle)])
    start = on_slope(0.1, angle)
    for mu, acceleration in ((0.2, G * (np.sin(angle) - 0.2 * np.cos(angle))), (0.8, 0.0)):
        plank = vc.Obstacle.box((40.0, 4.0, 1.0), -0.5 * n, start[3:], friction=mu, name="plank")
        sim = vc.Simulator(box(tmp_path), time_step, ground=None, obstacles=[plank])
        sim.reset(start)
        trajectory = sim.run(1.0)
        way = np.linalg.norm(trajectory.q[-1, :3] - start[:3])
        assert way == pytest.approx(
            0.5 * acceleration, abs=1e-10
        )  # exact; tolerances over 200 steps
        record = trajectory.contacts["body/plank"]
        assert record.sliding.all() == (acceleration > 0.0)
        force = record.force[1:]
        sideways = np.linalg.norm(force - np.outer(force @ n, n), axis=1)
        assert (sideways <= mu * force @ n + 1e-6).all()  # tolerances over h
        assert deepest(trajectory) < TOUCHING


@pytest.mark.parametrize("time_step", STEPS)
def test_an_obstacle_is_as_good_as_the_ground(tmp_path, time_step):
    angle, radius = 0.2, 0.1
    n = np.array([np.sin(angle), 0.0, np.cos(angle)])
    plank = vc.Obstacle.box((40.0, 4.0, 1.0), -0.5 * n, on_slope(0.0, angle)[3:])
    runs = []
    for options in ({"ground": slope(angle)}, {"ground": None, "obstacles": [plank]}):
        sim = vc.Simulator(sphere(tmp_path, radius), time_step, **options)
        sim.reset(on_slope(radius, angle))
        runs.append(sim.run(0.5))
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-11)  # the same equations


def test_sphere_rolls_off_an_edge(tmp_path):
    table = vc.Obstacle.box((1.0, 1.0, 1.0), (0.0, 0.0, -0.5), name="table")
    sim = vc.Simulator(sphere(tmp_path), 0.005, ground=vc.Ground(height=-1.0), obstacles=[table])
    sim.reset([0.3, 0.1, 0.1, *NO_TURN], [0.7, 0.1, 0.0, 0.0, 0.0, 0.0])
    trajectory = sim.run(1.5)
    assert trajectory.q[-1, 2] == pytest.approx(-0.9, abs=1e-9)
    # over the edge, a distance of one radius from it, as long as they touch
    centre = trajectory.q[:, [0, 2]] - [0.5, 0.0]
    touching = trajectory.contacts["body/table"].force.any(axis=1)
    over = (centre[:-1, 0] > 0.0) & touching
    assert over.sum() > 5
    np.testing.assert_allclose(np.linalg.norm(centre[1:][over], axis=1), 0.1, atol=TOUCHING)
    # the vertex of the path is second order in the step: it may gain a little, 2 kg and 1 m fall
    assert np.diff(trajectory.energy).max() < 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_come_to_rest_on_obstacles(tmp_path, shape):
    file = Path(tmp_path, "trough.urdf")
    file.write_text(
        '<robot name="trough"><link name="base"><collision><origin xyz="0.3 0 0" rpy="0 -0.6 0"/>'
        '<geometry><box size="1 2 0.1"/></geometry></collision><collision><origin xyz="-0.3 0 0" '
        'rpy="0 0.6 0"/><geometry><box size="1 2 0.1"/></geometry></collision></link></robot>'
    )
    trough = vc.Obstacle.from_urdf(file, position=(0.0, 0.0, 0.4), friction=0.4)
    scene = mechanism(tmp_path, a=(SHAPES[shape], 1.0))
    sim = vc.Simulator(scene, 0.01, ground=None, obstacles=[trough])
    quat = np.array([0.1, 0.3, 0.2, 0.9])
    sim.reset(np.concatenate([[0.05, 0.0, 0.9], quat / np.linalg.norm(quat)]))
    trajectory = sim.run(4.0)
    assert deepest(trajectory) < TOUCHING
    np.testing.assert_allclose(
        trajectory.contacts["a/trough"].force[-50:].mean(axis=0), [0.0, 0.0, G], atol=0.05
    )  # round ones still roll to and fro by a little
    assert np.abs(trajectory.q[-1, 0]) < 0.1


def test_convex_mesh(tmp_path):
    rng = np.random.default_rng(2)
    points = rng.normal(size=(60, 3))
    points *= 0.5 / np.linalg.norm(points, axis=1, keepdims=True)
    rock = vc.Obstacle.mesh(points, (0.0, 0.0, -0.5), name="rock")
    convex = convex_of(rock.shapes[0][0])
    for face, normal in zip(convex.faces, convex.normals, strict=True):
        corners = convex.vertices[list(face)]
        # hull of points on a sphere: all below each face; loops turn with the normal
        assert ((convex.vertices - corners[0]) @ normal).max() < 1e-12
        turn = np.cross(corners[1] - corners[0], corners[2] - corners[1])
        assert turn @ normal > 0.0
    sim = vc.Simulator(box(tmp_path), 0.01, ground=None, obstacles=[rock])
    sim.reset([0.01, 0.02, 0.3, *NO_TURN])
    trajectory = sim.run(0.8)
    assert np.abs(trajectory.contacts["body/rock"].force).max() > 10.0
    assert deepest(trajectory) < TOUCHING
    assert trajectory.energy[-1] < trajectory.energy[0]


def test_pinched_object_at_a_margin_of_twenty_does_not_creep(tmp_path):
    """Two fingers press a box of 0.1 kg with a force that would carry twenty of them."""
    limit = '<limit lower="-1" upper="1" effort="100" velocity="10"/>'
    shape = '<collision><geometry><box size="0.02 0.06 0.06"/></geometry></collision>'
    finger = INERTIAL + shape
    parts = [
        link("world", ""), link("left", finger), link("right", finger),
        joint("a", "world", "left", "prismatic", axis="1 0 0", origin="-0.06 0 1", limit=limit),
        joint("b", "world", "right", "prismatic", axis="-1 0 0", origin="0.06 0 1", limit=limit),
        body_link("cube", '<box size="0.1 0.05 0.05"/>', 0.1, joint_name="c"),
    ]  # fmt: skip
    hand = vc.load_robot(write(tmp_path, robot(*parts)))
    force = 20.0 * 0.1 * G / (2.0 * 0.8)
    sim = vc.Simulator(hand, 0.01, ground=None)
    start = sim.reset(np.concatenate([[0.0, 0.0], [0.0, 0.0, 1.0], NO_TURN]))
    trajectory = sim.run(20.0, controller=lambda state: [force, force])
    moved = np.abs(trajectory.q - start.q).max()
    assert moved < 1e-11  # MuJoCo: 50 to 155 micrometres per second; here one tolerance in all
    record = trajectory.contacts["left/cube"]
    assert not record.sliding.any()
    assert record.force[-1, 0] == pytest.approx(-force, rel=1e-6)
    assert record.force[-1, 2] == pytest.approx(-0.05 * G, rel=1e-3)


# ------------------------------------------------------------------------------ robots
def test_arm_stops_at_an_obstacle_and_at_itself(tmp_path):
    shape = (
        '<collision><origin xyz="0 0 -0.25"/><geometry><capsule radius="0.05" length="0.4"/>'
        "</geometry></collision>"
    )
    inertial = (
        '<inertial><origin xyz="0 0 -0.25"/><mass value="1"/>'
        '<inertia ixx="0.02" iyy="0.02" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    limit = '<limit lower="-3.1" upper="3.1" effort="100" velocity="100"/>'
    names = ("a", "b", "c")
    parts = [link("world", "")] + [link(name, inertial + shape) for name in names]
    for parent, name in zip(("world", *names), names, strict=False):
        z = 0.0 if parent == "world" else -0.55
        parts.append(joint(f"j_{name}", parent, name, origin=f"0 0 {z}", limit=limit))
    arm = vc.load_robot(write(tmp_path, robot(*parts)))
    wall = vc.Obstacle.box((0.2, 2.0, 2.0), (-0.7, 0.0, -0.5), name="wall")
    sim = vc.Simulator(arm, 0.01, ground=None, obstacles=[wall], self_collision=True)
    assert set(sim.body_pairs.names) == {"a/c", "a/wall", "b/wall", "c/wall"}
    assert sim.body_pairs.filtered == {"a/b": "neighbours", "b/c": "neighbours"}
    assert "a/b: left out, neighbours" in str(sim.body_pairs)
    start = sim.reset([-0.5, 1.0, 1.5])
    trajectory = sim.run(2.0, controller=lambda state: [6.0 * np.sin(3.0 * state.time), 4.0, 4.0])
    assert deepest(trajectory) < TOUCHING
    touched = {name for name in sim.body_pairs.names if trajectory.contacts[name].force.any()}
    assert "a/c" in touched and len(touched) > 1
    assert np.abs(trajectory.ledger.defect).max() < 1e-9
    without = vc.Simulator(arm, 0.01, ground=None, obstacles=[wall])
    assert "a/c" not in without.body_pairs.names
    snapshot = sim.snapshot()
    first = sim.run(0.2)
    sim.restore(snapshot)
    np.testing.assert_array_equal(sim.run(0.2).q, first.q)
    many = vc.rollout(arm, 0.01, start.q, None, np.zeros((20, 3)), ground=None, obstacles=[wall],
                      self_collision=True)  # fmt: skip
    sim.reset(start.q)
    np.testing.assert_array_equal(many.q[0], sim.run(0.2).q)

    srdf = Path(tmp_path, "arm.srdf")
    srdf.write_text('<robot name="arm"><disable_collisions link1="c" link2="a"/></robot>')
    disabled = vc.Simulator(arm, 0.01, ground=None, self_collision=srdf)
    assert disabled.body_pairs.filtered["a/c"] == "disabled by the SRDF"


def test_loops_and_obstacles(tmp_path):
    """A closed loop pushed against a wall: its rows and the contacts are solved together."""
    hopper = vc.load_robot("fly_hopper")
    q = hopper.on_ground(hopper.neutral())
    q[2] += 0.3
    floor = vc.Obstacle.box((2.0, 2.0, 0.4), (0.0, 0.0, -0.2), name="floor")
    runs = []
    for options in ({}, {"obstacles": [vc.Obstacle.box((2.0, 2.0, 0.4), (9.0, 0.0, 0.0))]}):
        sim = vc.Simulator(hopper, 0.005, **options)
        sim.reset(q)
        runs.append(sim.run(0.5))
    # a far obstacle changes nothing but how hard Newton's method takes contacts
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-7)
    sim = vc.Simulator(hopper, 0.005, ground=None, obstacles=[floor])
    sim.reset(q)
    trajectory = sim.run(0.5)
    assert trajectory.constraint_error.max() < 1e-11
    assert deepest(trajectory) < TOUCHING
    assert trajectory.contacts.total_force[:, 2].max() > 10.0


def test_ball_falls_on_a_closed_loop(tmp_path):
    """Contact between two links and rows of a loop, in one linear system."""
    shape = '<box size="1 0.2 0.1"/>'
    bar = f'<collision><origin xyz="0.5 0 0"/><geometry>{shape}</geometry></collision>'
    text = loop_square("spherical").replace('<link name="b">', f'<link name="b">{bar}')
    ball = body_link("z_ball", '<sphere radius="0.1"/>', 0.5)
    mechanism = vc.load_robot(write(tmp_path, text.replace("</robot>", f"{ball}</robot>")))
    sim = vc.Simulator(mechanism, 0.01, ground=None)
    q = mechanism.neutral()
    q[-7:-4] = [0.6, 0.03, 1.3]
    sim.reset(q)
    trajectory = sim.run(0.6)
    force = trajectory.contacts["b/z_ball"].force
    # it lies on the bar, which holds still at its joint limits or falls slower than the ball
    assert force[:, 2].min() < -0.5 * G
    assert trajectory.constraint_error.max() < 1e-11
    assert deepest(trajectory) < TOUCHING
    assert np.abs(trajectory.ledger.defect).max() < 1e-9
    assert trajectory.methods.max() == 0


# ------------------------------------------------------------------------------ where forces act
def torque(trajectory: vc.Trajectory, signs: dict[str, float], body: int) -> np.ndarray:
    """(N, 3) of contact forces about a body's centre; signs: 1 where it is the first, else -1."""
    table = trajectory.contacts
    rows = np.arange(len(table.touches))
    step, contact = table.touches[:, :2].astype(int).T
    sign = np.array([signs.get(name, 0.0) for name in table.names])[contact]
    lever = table.places(rows) - trajectory.p_WB[step, body]
    total = np.zeros((len(trajectory), 3))
    np.add.at(total, step, np.cross(lever, sign[:, None] * table.touches[:, 2:5]))
    return total


def test_forces_between_bodies_act_where_they_balance(tmp_path):
    """A ball off the middle of a box, which stands on two blocks: no torque about either centre."""
    scene = mechanism(tmp_path, a=('<box size="1 0.4 0.2"/>', 1.0), b=(SHAPES["sphere"], 2.0))
    blocks = [
        vc.Obstacle.box((0.1, 1.0, 0.5), (x, 0.0, 0.0), name=name)
        for name, x in (("left", -0.4), ("right", 0.3))
    ]
    sim = vc.Simulator(scene, 0.01, ground=None, obstacles=blocks)
    sim.reset(place([0.0, 0.0, 0.35], [0.2, 0.05, 0.55]))
    trajectory = sim.run(0.2)
    np.testing.assert_array_equal(trajectory.contacts.link_bodies[:3], [[0, 1], [0, -1], [0, -1]])
    # the box carries 20 N m on a lever of 0.2 m; momentum tolerance over h
    on_box = torque(trajectory, {"a/b": 1.0, "a/left": 1.0, "a/right": 1.0}, 0)
    assert np.abs(on_box).max() < 1e-7
    assert np.abs(torque(trajectory, {"a/b": 1.0}, 0)).max() > 3.0
    assert np.abs(torque(trajectory, {"a/b": -1.0}, 1)).max() < 1e-7
    # the ball rests on the top of the box, the box on the tops of the blocks
    rows = np.flatnonzero(trajectory.contacts.touches[:, 0] == 10)
    heights = {
        trajectory.contacts.names[int(contact)]: place[2]
        for contact, place in zip(
            trajectory.contacts.touches[rows, 1], trajectory.contacts.places(rows), strict=True
        )
    }
    expected = {"a/b": 0.45, "a/left": 0.25, "a/right": 0.25}
    assert heights == pytest.approx(expected, abs=TOUCHING)


def test_friction_acts_where_it_balances(tmp_path):
    """A box that slides down an obstacle does not turn."""
    angle = 0.3
    n = np.array([np.sin(angle), 0.0, np.cos(angle)])
    start = on_slope(0.1, angle)
    plank = vc.Obstacle.box((40.0, 4.0, 1.0), -0.5 * n, start[3:], friction=0.2, name="plank")
    sim = vc.Simulator(box(tmp_path), 0.01, ground=vc.Ground(height=-9.0), obstacles=[plank])
    sim.reset(start)
    trajectory = sim.run(0.5)
    assert trajectory.contacts["body/plank"].sliding.all()
    # friction alone turns by 0.4 N m; momentum tolerance over h
    assert np.abs(torque(trajectory, {"body/plank": 1.0}, 0)).max() < 1e-7
    rows = np.arange(len(trajectory.contacts.touches))
    heights = trajectory.contacts.places(rows) @ n
    np.testing.assert_allclose(heights, 0.0, atol=TOUCHING)


# ------------------------------------------------------------------------------ input and output
def test_files(tmp_path):
    table = vc.Obstacle.box((1.0, 1.0, 1.0), (0.0, 0.0, -0.5), name="table")
    pole = vc.Obstacle.capsule(0.1, 1.0, (2.0, 0.0, 0.0), name="pole")
    rock = vc.Obstacle.mesh(np.eye(3), (0.0, 5.0, 0.0), name="rock")
    flat = vc.Obstacle.mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], name="flat")
    ball = vc.Obstacle.sphere(0.1, (0.0, 2.0, 0.0), name="ball")
    sim = vc.Simulator(box(tmp_path), 0.01, ground=None, obstacles=[table, pole, rock, flat, ball])
    assert any("flat" in note for note in sim.body_pairs.notes)
    sim.reset([0.0, 0.0, 0.12, *NO_TURN])
    trajectory = sim.run(0.2)
    trajectory.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    again = loaded.contacts["body/table"]
    np.testing.assert_array_equal(again.gap, trajectory.contacts["body/table"].gap)
    np.testing.assert_array_equal(again.force, trajectory.contacts["body/table"].force)
    rows = np.arange(len(trajectory.contacts.touches))
    np.testing.assert_array_equal(loaded.contacts.places(rows), trajectory.contacts.places(rows))
    for mine, his in zip(loaded.obstacles, sim.obstacles, strict=True):
        assert mine.name == his.name
        [(_, mine_at)], [(_, his_at)] = mine.shapes, his.shapes
        np.testing.assert_array_equal(mine_at.vector, his_at.vector)
    assert np.isinf(trajectory.contacts["body/pole"].gap).all()
    save_failure(sim, tmp_path / "step.npz")
    copy, _ = load_failure(tmp_path / "step.npz")
    assert [obstacle.name for obstacle in copy.obstacles] == [
        "table",
        "pole",
        "rock",
        "flat",
        "ball",
    ]
    np.testing.assert_array_equal(copy.step().q, sim.step().q)


def test_bad_input(tmp_path):
    cube = box(tmp_path)
    with pytest.raises(vc.errors.ObstacleError, match="friction is -1"):
        vc.Obstacle.sphere(1.0, friction=-1.0)
    with pytest.raises(vc.errors.ObstacleError, match="above zero"):
        vc.Obstacle.box((1.0, 0.0, 1.0))
    with pytest.raises(vc.errors.ObstacleError, match="length 2, not 1"):
        vc.Obstacle.box((1.0, 1.0, 1.0), quat_xyzw=(0.0, 0.0, 0.0, 2.0))
    with pytest.raises(vc.errors.ObstacleError, match=r"\(n, 3\)"):
        vc.Obstacle.mesh([[0.0, 1.0]])
    with pytest.raises(vc.errors.ObstacleError, match="no collision shapes"):
        vc.Obstacle.from_urdf(write(tmp_path, robot(link("base"))))
    ball = vc.Obstacle.sphere(0.3)
    with pytest.raises(vc.errors.ObstacleError, match="two obstacles are called 'sphere'"):
        vc.Simulator(cube, obstacles=[ball, ball])
    with pytest.raises(vc.errors.ArgumentError, match="a vc.Obstacle"):
        vc.Simulator(cube, obstacles=["table.urdf"])
    with pytest.raises(vc.errors.ArgumentError, match="True, False or an .srdf file"):
        vc.Simulator(cube, self_collision=3.0)
    with pytest.raises(vc.errors.RobotFileNotFoundError, match="no such SRDF file"):
        vc.Simulator(cube, self_collision=tmp_path / "none.srdf")
    with pytest.raises(vc.errors.OptionError, match="time stepping only"):
        vc.Simulator(cube, obstacles=[ball], contact=vc.PlasticContact())
    sim = vc.Simulator(cube, ground=None, obstacles=ball)  # starts inside: not ready
    with pytest.raises(vc.errors.OverlapError, match="body and sphere are .* inside each other"):
        sim.step()
    before = sim.reset([0.0, 0.0, 0.5, *NO_TURN])
    with pytest.raises(vc.errors.OverlapError, match="body and sphere"):
        sim.reset([0.0, 0.0, 0.35, *NO_TURN])
    assert sim.state is before


def test_a_quadruped_at_rest_on_a_brick_has_no_velocity():
    # calves, feet and thighs on the ground and on a brick, more contacts than joints
    robot = vc.load_robot(example("go2.urdf"))
    q = robot.neutral()
    q[7:] = np.tile([0.0, 0.8, -1.6], 4)
    q = robot.on_ground(q, height=0.4)
    brick = vc.Obstacle.box((0.3, 0.3, 0.1), position=(0.2, 0.0, 0.05), friction=0.6)
    sim = vc.Simulator(robot, 0.005, obstacles=[brick])
    sim.reset(q)
    command = vc.JointCommand(q=q[7:], kp=60.0, kd=3.0)
    sim.run(3.0, command)
    rest = sim.run(0.5, command)
    assert np.abs(rest.v).max() < 1e-4  # m/s, rad/s
    assert np.ptp(rest.energy) < 1e-5  # J
    assert np.abs(rest.ledger.impact).max() < 1e-5
    assert rest.iterations.mean() < 5


def test_a_limp_quadruped_on_a_brick_lies_still_cheaply():
    robot = vc.load_robot(example("go2.urdf"))
    q = robot.neutral()
    q[7:] = np.tile([0.0, 0.8, -1.6], 4)
    brick = vc.Obstacle.box((0.3, 0.3, 0.1), position=(0.2, 0.0, 0.05), friction=0.6)
    sim = vc.Simulator(robot, 0.005, obstacles=[brick])
    sim.reset(robot.on_ground(q, height=0.2))
    sim.run(2.0)
    rest = sim.run(0.5)
    assert np.abs(rest.v).max() < 1e-8  # m/s, rad/s
    assert np.abs(np.diff(rest.q, axis=0)).max() < 1e-10  # m, rad
    assert rest.iterations.mean() < 2
