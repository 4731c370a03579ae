"""The ground as an argument, its errors, and steps that are written to files."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import box
from support import example
from urdf_text import INERTIAL, extension, joint, link, robot, write

import vi_contact as vc
from vi_contact.simulation.replay import load_failure, save_failure


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"friction": -0.1}, "friction is -0.1"),
        ({"restitution": 1.1}, "restitution is 1.1"),
        ({"normal": (0.0, 0.0, 0.0)}, "normal"),
        ({"height": np.nan}, "height is nan"),
    ],
)
def test_ground_that_cannot_be(options, words):
    with pytest.raises(vc.errors.GroundError, match=words):
        vc.Ground(**options)


def test_start_below_the_ground(tmp_path):
    sim = vc.Simulator(box(tmp_path))
    with pytest.raises(vc.errors.PenetrationError, match="0.05 m below the ground.*on_ground"):
        sim.reset([0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0])


def test_unknown_contact_lists_those_there_are(tmp_path):
    with pytest.raises(vc.errors.ContactNotFoundError, match="body_0"):
        vc.Simulator(box(tmp_path)).run(0.0).contacts["foot"]


def test_forces_of_links_add_up(tmp_path):
    sim = vc.Simulator(vc.load_robot(example("go2.urdf")), 0.01)
    sim.run(0.5)
    sim.run(0.2).save(tmp_path / "run.npz")
    contacts = vc.Trajectory.load(tmp_path / "run.npz").contacts
    foot = [contacts[c.name].force for c in sim.robot.contacts if c.link == "FL_foot"]
    np.testing.assert_allclose(contacts.link_force("FL_foot"), sum(foot), atol=1e-9)  # N, round-off
    whole = sum(contacts.link_force(link) for link in set(contacts.links))
    np.testing.assert_allclose(whole, contacts.total_force, atol=1e-9)
    assert whole[:, 2].max() > 50.0
    with pytest.raises(vc.errors.LinkNotFoundError, match="did you mean 'FL_foot'"):
        contacts.link_force("FL_fot")


def test_links_that_push_each_other_have_opposite_forces(tmp_path):
    hopper = vc.load_robot("fly_hopper")
    table = vc.Obstacle.box((2.0, 2.0, 0.1), position=(0.0, 0.0, 0.05), name="table")
    sim = vc.Simulator(hopper, ground=None, obstacles=table)
    sim.reset(hopper.on_ground(hopper.neutral(), 0.11))
    contacts = sim.run(0.3).contacts
    force = contacts.link_force("link_3")
    assert force[:, 2].max() > 0.0
    assert np.array_equal(force, contacts["link_3/table"].force)
    whole = sum(contacts[name].force for name in contacts)
    np.testing.assert_allclose(contacts.link_force("table"), -whole, atol=1e-9)  # N, round-off


def test_trajectory_with_contacts_survives_a_file(tmp_path):
    sim = vc.Simulator(box(tmp_path))
    trajectory = sim.run(0.1)
    trajectory.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    for name in trajectory.contacts:
        np.testing.assert_array_equal(loaded.contacts[name].gap, trajectory.contacts[name].gap)
        np.testing.assert_array_equal(loaded.contacts[name].force, trajectory.contacts[name].force)


@pytest.mark.parametrize(("solver", "steps"), [("newton", 100), ("ipopt", 5)])
def test_a_saved_step_is_repeated_bit_for_bit(tmp_path, solver, steps):
    sim = vc.Simulator(box(tmp_path), 0.005, ground=vc.Ground(friction=0.4), solver=solver)
    sim.reset([0.0, 0.0, 0.4, 0.1, 0.2, 0.3, np.sqrt(0.86)], [1.0, 0.0, 0.0, 3.0, 2.0, 1.0])
    sim.run(steps * 0.005)
    save_failure(sim, tmp_path / "step.npz")
    again, tau = load_failure(tmp_path / "step.npz")
    np.testing.assert_array_equal(again.step(tau).q, sim.step().q)
    with pytest.raises(vc.errors.TrajectoryFileError):
        load_failure(tmp_path / "nothing.npz")


def test_restoring_makes_a_simulator_ready(tmp_path):
    """A fixed arm that reaches into the ground when neutral goes on from a state above it."""
    ball = (
        '<collision><origin xyz="0 0 -1"/><geometry><sphere radius="0.1"/></geometry></collision>'
    )
    wide = '<limit lower="-3" upper="3" effort="1" velocity="1"/>'
    text = robot(
        link("base"),
        link("arm", INERTIAL + ball),
        joint("hinge", "base", "arm", limit=wide),
        extension('<base type="fixed"/>'),
    )
    arm = vc.load_robot(write(tmp_path, text))
    raised, neutral = vc.Simulator(arm), vc.Simulator(arm)
    raised.reset([2.5])
    for refused in (neutral.step, neutral.snapshot):
        with pytest.raises(vc.errors.PenetrationError):
            refused()
    neutral.restore(raised.snapshot())
    np.testing.assert_array_equal(neutral.step().q, raised.step().q)


def test_friction_does_not_pile_up_where_nothing_can_move():
    # on its rail the hopper cannot slide sideways, and no force may grow there from round-off
    robot = vc.load_robot("fly_hopper_rail")
    sim = vc.Simulator(robot, 2e-4)
    sim.reset()
    run = sim.run(4.0, vc.JointCommand(q=[0.0, 0.0], kp=80.0, kd=5.0))
    force = run.contacts["foot"].force
    assert force[-1, 2] > 70.0
    assert np.abs(force[:, 1]).max() < 1e-6  # N
