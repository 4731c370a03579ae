"""Robots, states and records go to other processes and come back; a simulator says it cannot."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from motion import bare
from support import BUNDLED, example

import vi_contact as vc
from vi_contact import errors


def again(thing):
    return pickle.loads(pickle.dumps(thing))


def drop(robot, height):
    """Runs in another process: takes a robot, gives back what a run leaves."""
    q = robot.on_ground(robot.neutral(), height)
    sim = vc.Simulator(robot, 0.01)
    sim.reset(q)
    return sim.run(0.1), sim.state, sim.snapshot()


def fall_over(robot):
    """Runs in another process and fails."""
    vc.Simulator(robot).reset(robot.neutral()[:-1])


@pytest.mark.parametrize("name", [*BUNDLED, "go2.urdf"])
def test_a_robot_comes_back_the_same(name):
    robot = vc.load_robot(name if name in BUNDLED else example(name))
    fresh = again(robot)
    assert robot.report
    assert robot.visual_model
    for other in (fresh, again(robot)):
        assert str(other.report) == str(robot.report)
        assert other.contact_names == robot.contact_names
        assert other.visual_model.ngeoms == robot.visual_model.ngeoms
        assert np.array_equal(other.neutral(), robot.neutral())
        assert not other.bodies[0].inertia.flags.writeable
        ours, theirs = (vc.Simulator(each).run(0.1).q for each in (robot, other))
        assert np.array_equal(ours, theirs)


def test_shapes_come_back_the_same(tmp_path):
    (tmp_path / "broken.stl").write_text("no mesh")
    file = tmp_path / "shapes.urdf"
    file.write_text(
        """<robot name="shapes">
        <!-- a comment
             of two lines -->
        <link name="base"><inertial><mass value="1"/>
          <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
          <collision><geometry><mesh filename="broken.stl"/></geometry></collision>
          <collision><geometry><capsule radius="0.1" length="0.3"/></geometry></collision>
          <drake:proximity_properties/>
        </link></robot>"""
    )
    robot = vc.load_robot(file)
    other = again(robot)  # before the shapes are read
    assert [type(g.geometry).__name__ for g in other.collision_model.geometryObjects] == ["Capsule"]
    assert "broken.stl cannot be used" in str(robot.report)
    assert str(other.report) == str(robot.report)
    late = again(robot)  # and after
    late.collision_model  # noqa: B018 - reads the shapes once more
    assert str(late.report) == str(robot.report)
    assert late.contact_names == robot.contact_names


def test_a_pinocchio_robot_keeps_its_shapes():
    source = vc.load_robot(example("panda.urdf"), base="fixed")
    robot = vc.from_pinocchio(source.model, source.collision_model)
    other = again(robot)
    assert other.collision_model.ngeoms == robot.collision_model.ngeoms > 0
    assert other.contact_names == robot.contact_names
    assert again(bare(robot)).collision_model is None


def test_states_come_back_whole_and_locked():
    robot = vc.load_robot("fly_hopper")
    sim = vc.Simulator(robot)
    state = sim.step([1.0, -1.0])
    for other in (again(state), copy.deepcopy(state)):
        for name in ("time", "q", "v", "p_WB", "quat_WB_xyzw", "v_WB", "w_WB_B", "energy"):
            assert np.array_equal(getattr(other, name), getattr(state, name)), name
        assert repr(other) == repr(state)
        for array in (other.q, other.v, other.p_WB):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0
    assert len(pickle.dumps(state)) < 10_000  # without the robot


def test_trajectories_come_back_whole(tmp_path):
    robot = vc.load_robot("fly_hopper")
    box = vc.Obstacle.box((1.0, 1.0, 0.1), position=(3.0, 0.0, 0.0))
    trajectory = vc.Simulator(robot, obstacles=[box]).run(0.2)
    other = again(trajectory)
    assert np.array_equal(other.q, trajectory.q)
    assert np.array_equal(other.ledger.sum, trajectory.ledger.sum)
    assert np.array_equal(other.contacts["foot"].force, trajectory.contacts["foot"].force)
    assert other.impacts == trajectory.impacts
    assert not other.q.flags.writeable
    assert not other.ledger.motor.flags.writeable
    assert not other.contacts.touches.flags.writeable
    assert other.to_html(tmp_path / "run.html").stat().st_size > 100_000


def test_rollouts_come_back():
    robot = vc.load_robot("jumper")
    rollout = vc.rollout(
        robot, 0.01, robot.on_ground(robot.neutral()), None, np.zeros((3, 4, robot.nu))
    )
    other = again(rollout)
    assert np.array_equal(other.q, rollout.q)
    assert other.status == rollout.status
    assert not other.q.flags.writeable


@pytest.mark.parametrize("contact", [None, vc.PlasticContact()])
def test_a_snapshot_goes_on_elsewhere(contact):
    robot = vc.load_robot("jumper")
    sim = vc.Simulator(robot, 0.002, contact=contact)
    sim.run(0.1)
    other = vc.Simulator(again(robot), 0.002, contact=contact)
    other.restore(again(sim.snapshot()))
    assert np.array_equal(other.state.q, sim.state.q)
    assert np.array_equal(other.run(0.1).q, sim.run(0.1).q)


@pytest.mark.parametrize("call", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_simulator_says_what_to_copy_instead(call):
    sim = vc.Simulator(vc.load_robot("jumper"))
    with pytest.raises(errors.CopyError, match=r"sim\.snapshot\(\)"):
        call(sim)


def test_errors_keep_their_fields():
    failure = errors.StepFailedError(0.5, "SINGULAR", 1e-3, "try less")
    other = again(failure)
    assert str(other) == str(failure)
    assert (other.time, other.status, other.residual) == (0.5, "SINGULAR", 1e-3)
    missing = again(errors.ContactNotFoundError("fot", ["foot"]))
    assert str(missing) == "no contact 'fot'; did you mean 'foot'? known: foot"
    assert missing.known == ("foot",)


def test_runs_in_other_processes():
    robot = vc.load_robot("fly_hopper_rail")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        trajectory, state, snapshot = pool.submit(drop, robot, 0.1).result()
        failed = pool.submit(fall_over, robot).exception()
    ours, our_state, _ = drop(robot, 0.1)
    assert np.array_equal(trajectory.q, ours.q)
    assert np.array_equal(state.v, our_state.v)
    sim = vc.Simulator(robot)
    sim.restore(snapshot)
    assert sim.state.time == pytest.approx(0.1)
    assert isinstance(failed, errors.ArrayError)
    assert failed.name == "q"
