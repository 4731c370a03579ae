"""The ground as an argument, its errors, and steps that are written to files."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import box

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


def test_trajectory_with_contacts_survives_a_file(tmp_path):
    sim = vc.Simulator(box(tmp_path))
    trajectory = sim.run(0.1)
    trajectory.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    for name in trajectory.contacts:
        np.testing.assert_array_equal(loaded.contacts[name].gap, trajectory.contacts[name].gap)
        np.testing.assert_array_equal(loaded.contacts[name].force, trajectory.contacts[name].force)


def test_a_saved_step_is_repeated_bit_for_bit(tmp_path):
    sim = vc.Simulator(box(tmp_path), 0.005, ground=vc.Ground(friction=0.4))
    sim.reset([0.0, 0.0, 0.4, 0.1, 0.2, 0.3, np.sqrt(0.86)], [1.0, 0.0, 0.0, 3.0, 2.0, 1.0])
    sim.run(0.5)
    save_failure(sim, tmp_path / "step.npz")
    again, tau = load_failure(tmp_path / "step.npz")
    np.testing.assert_array_equal(again.step(tau).q, sim.step().q)
    with pytest.raises(vc.errors.TrajectoryFileError):
        load_failure(tmp_path / "nothing.npz")
