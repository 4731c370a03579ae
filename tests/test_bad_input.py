"""Bad input raises clear errors and leaves the state as it was."""

import numpy as np
import pytest
from motion import bare, chain_urdf

import vi_contact as vc
from vi_contact import errors


@pytest.fixture(scope="module")
def hopper():
    return bare(vc.load_robot("fly_hopper"))


@pytest.fixture
def sim(hopper):
    sim = vc.Simulator(hopper, 0.01)
    sim.step([0.01, 0.0])
    return sim


def assert_untouched(sim, call, error, match):
    before = sim.snapshot()
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, vc.ViContactError)
    after = sim.snapshot()
    assert before.time == after.time
    assert np.array_equal(before.numbers, after.numbers)
    follow = sim.step().q
    sim.restore(before)
    assert np.array_equal(sim.step().q, follow)
    return caught.value


@pytest.mark.parametrize("time_step", [0.0, -0.01, np.nan, np.inf, "fast", None])
def test_time_step(hopper, time_step):
    with pytest.raises(errors.TimeStepError, match="time step is"):
        vc.Simulator(hopper, time_step)


@pytest.mark.parametrize("gravity", [(0.0, 9.81), (0.0, 0.0, np.nan), "down"])
def test_gravity(hopper, gravity):
    with pytest.raises(errors.ArrayError, match="gravity"):
        vc.Simulator(hopper, gravity=gravity)


@pytest.mark.parametrize(
    "option",
    [
        {"momentum_tolerance": 0.0},
        {"velocity_tolerance": -1.0},
        {"closure_tolerance": np.nan},
        {"contact_tolerance": 0.0},
        {"max_iterations": 0},
        {"max_iterations": "many"},
        {"max_halvings": -1},
    ],
)
def test_options(hopper, option):
    with pytest.raises(errors.OptionError, match=next(iter(option))):
        vc.Simulator(hopper, options=vc.SolverOptions(**option))


@pytest.mark.parametrize(
    ("tau", "match"),
    [
        ([1.0], r"shape \(1,\), needed is \(2,\)"),
        ([[1.0, 2.0]], "needed is"),
        (np.zeros(3), "needed is"),
        ([np.nan, 0.0], "entry 0 is not finite"),
        (np.array([0.0, np.inf]), "entry 1 is not finite"),
        (np.array([np.inf, -np.inf]), "entry 0 is not finite"),
        ("full", "2 numbers"),
    ],
)
def test_torque(sim, tau, match):
    assert_untouched(sim, lambda: sim.step(tau), errors.ArrayError, match)
    assert_untouched(sim, lambda: sim.run(0.1, lambda _: tau), errors.ArrayError, match)


@pytest.mark.parametrize(
    ("wrenches", "error", "match"),
    [
        ({"foot": np.zeros(6)}, errors.LinkNotFoundError, "no link 'foot'; .*link_0"),
        ({5: np.zeros(6)}, errors.LinkNotFoundError, "no link '5'"),
        ({"base": np.zeros(3)}, errors.ArrayError, r"wrenches\['base'\].*needed is \(6,\)"),
        ({"base": [0, 0, 0, 0, 0, np.nan]}, errors.ArrayError, "not finite"),
    ],
)
def test_wrenches(sim, wrenches, error, match):
    assert_untouched(sim, lambda: sim.step(wrenches=wrenches), error, match)


def test_wrenches_without_links(sim):
    assert_untouched(
        sim, lambda: sim.step(wrenches=np.zeros(6)), errors.ArgumentError, "a dict from links"
    )


@pytest.mark.parametrize(
    ("robot", "match"),
    [
        ("fly_hopper", r"robot is 'fly_hopper'; it can be what vc\.load_robot\(path\)"),
        (vc.load_robot("walker").model, r"vc\.from_pinocchio\(model\)"),
        (None, "robot is None"),
    ],
)
def test_what_is_no_robot(robot, match):
    with pytest.raises(errors.ArgumentError, match=match):
        vc.Simulator(robot)
    with pytest.raises(errors.ArgumentError, match=match):
        vc.rollout(robot, 0.01, [0.0], None, [[0.0]])


@pytest.mark.parametrize("ground", [0.5, "flat", vc.Ground])
def test_what_is_no_ground(hopper, ground):
    with pytest.raises(errors.ArgumentError, match=r"ground is .*vc\.Ground\(friction"):
        vc.Simulator(hopper, ground=ground)


@pytest.mark.parametrize(
    "changes", [{"friction": "high"}, {"restitution": None}, {"normal": "up"}, {"height": "x"}]
)
def test_impossible_grounds(changes):
    with pytest.raises(errors.GroundError, match=f"the ground's {next(iter(changes))} is"):
        vc.Ground(**changes)


def test_numbers_of_numpy_are_numbers():
    assert vc.Ground(np.float32(0.5), np.array(0.25)).friction == 0.5
    assert vc.Obstacle.sphere(np.float64(1.0), friction=np.int64(1)).friction == 1


def test_a_single_event_needs_no_list(hopper):
    event = vc.Event(lambda state: state.time - 0.005, name="soon")
    [soon] = vc.Simulator(hopper, events=event).run(0.02).occurrences
    assert soon.name == "soon"
    for wrong in (5, [event, None], lambda state: 1.0):
        with pytest.raises(errors.ArgumentError, match=r"events is .*a vc\.Event, or a list"):
            vc.Simulator(hopper, events=wrong)
    with pytest.raises(errors.ArgumentError, match=r"obstacles is 5; .*vc\.Obstacle"):
        vc.Simulator(hopper, obstacles=5)


def test_impossible_obstacles():
    with pytest.raises(errors.ObstacleError, match=r"numbers \(n, 3\); a mesh file .*from_urdf"):
        vc.Obstacle.mesh("no.stl")
    with pytest.raises(errors.ObstacleError, match="radius is"):
        vc.Obstacle.sphere("large")
    with pytest.raises(errors.ObstacleError, match="friction is high"):
        vc.Obstacle.sphere(1.0, friction="high")


def test_joint_position_by_name(hopper):
    q = hopper.neutral()
    q[7] = 0.3
    assert hopper.joint_position(q, "joint_0") == hopper.joint_position(q, 1) == 0.3
    with pytest.raises(errors.JointNotFoundError, match="did you mean 'joint_0'"):
        hopper.joint_position(q, "joint0")
    with pytest.raises(errors.ArgumentError, match="one coordinate, not 6"):
        hopper.joint_position(q, 0)


def test_a_run_that_no_computer_holds(sim):
    assert_untouched(
        sim, lambda: sim.run(1e13), errors.TimeStepError, r"1e\+15 steps take .* GB .*shorter time"
    )


def test_wrench_on_the_world(tmp_path):
    sim = vc.Simulator(vc.load_robot(chain_urdf(tmp_path, 1)))
    assert_untouched(
        sim, lambda: sim.step(wrenches={"world": np.zeros(6)}), errors.ArrayError, "fixed to the"
    )


@pytest.mark.parametrize("duration", [-1.0, np.nan, np.inf, "long", None])
def test_duration(sim, duration):
    assert_untouched(sim, lambda: sim.run(duration), errors.TimeStepError, "duration")


def test_start(sim, hopper):
    q, v = hopper.neutral(), np.zeros(hopper.nv)
    assert_untouched(sim, lambda: sim.reset(q[:-1]), errors.ArrayError, "argument 'q'")
    assert_untouched(sim, lambda: sim.reset(q, v[:-1]), errors.ArrayError, "argument 'v'")
    assert_untouched(sim, lambda: sim.reset(q, v * np.nan), errors.ArrayError, "not finite")
    assert_untouched(sim, lambda: sim.reset(q, v, np.inf), errors.TimeStepError, "start time")


def test_open_loop_at_reset(sim, hopper):
    q = hopper.neutral()
    q[8] += 0.01
    error = assert_untouched(sim, lambda: sim.reset(q), errors.OpenLoopError, "'loop' is open by")
    assert error.gaps["loop"] == pytest.approx(hopper.loop_error(q))
    assert "close_loops" in str(error)


def test_rotation_too_fast_at_reset(sim, hopper):
    v = np.zeros(hopper.nv)
    v[4] = 1e5
    error = assert_untouched(
        sim,
        lambda: sim.reset(v=v),
        errors.RotationTooFastError,
        r"turns at 1e\+05 rad/s.*6.144e\+04 rad/s",
    )
    assert error.body in {body.name for body in hopper.bodies}
    assert "time step below 0.006 s" in str(error)
    vc.Simulator(hopper, 0.006).reset(v=v)  # the advice works


def test_rotation_too_fast_in_a_step(tmp_path):
    pendulum = vc.load_robot(chain_urdf(tmp_path, 1))
    options = vc.SolverOptions(max_halvings=0)
    sim = vc.Simulator(pendulum, 0.01, options=options)
    error = assert_untouched(
        sim, lambda: sim.step([1e5]), errors.StepFailedError, "'link_0' turns too fast for a step"
    )
    assert error.status == "ROTATION"
    assert error.time == 0.0
    assert error.residual > 0.0
    assert "time_step=" in str(error)


def test_failed_step_ends_a_run(tmp_path):
    pendulum = vc.load_robot(chain_urdf(tmp_path, 1))
    sim = vc.Simulator(pendulum, 0.01)

    def kick(state):
        return np.array([1e9 if state.time > 0.045 else 0.0])

    trajectory = sim.run(0.1, kick, throw=False)
    assert len(trajectory) == 5
    assert trajectory.status is not vc.Status.CONVERGED
    assert sim.state.time == pytest.approx(0.05)
    assert np.array_equal(sim.state.q, trajectory.q[-1])
    with pytest.raises(errors.StepFailedError):
        sim.run(0.1, kick)
    sim.run(0.1)  # and it goes on


def test_difficult_step_is_split_and_says_so(tmp_path):
    pendulum = vc.load_robot(chain_urdf(tmp_path, 1))
    sim = vc.Simulator(pendulum, 0.1)
    sim.reset(v=[19.0])
    state = sim.step([1.0])
    assert sim.info.parts > 1
    fine = vc.Simulator(pendulum, 0.0001)
    fine.reset(v=[19.0])
    assert state.v == pytest.approx(fine.run(0.1, lambda _: [1.0]).v[-1], rel=0.05)


def test_overflow_is_found(tmp_path):
    pendulum = vc.load_robot(chain_urdf(tmp_path, 1))
    sim = vc.Simulator(pendulum, 0.01)
    assert_untouched(sim, lambda: sim.step([1e308]), errors.StepFailedError, "failed")


def test_snapshot_of_another_robot(sim, tmp_path):
    other = vc.Simulator(vc.load_robot(chain_urdf(tmp_path, 1)))
    assert_untouched(sim, lambda: sim.restore(other.snapshot()), errors.ArrayError, "another robot")


@pytest.mark.parametrize(
    ("other", "match"),
    [
        ({"ground": None}, "ground=None, here with a ground"),
        (
            {"obstacles": vc.Obstacle.sphere(0.1, (5.0, 0.0, 0.0))},
            "may meet .*base/sphere.*, here links that may meet none",
        ),
        ({"contact": vc.PlasticContact()}, r"contact=PlasticContact\(\), here contact=None"),
        ({"events": [vc.Event(lambda state: 1.0)]}, "with events, here no events"),
        ({"solver": "ipopt"}, "solver='ipopt', here solver='newton'"),
    ],
)
def test_snapshot_of_another_simulator(other, match):
    hopper = vc.load_robot("fly_hopper")  # with its shapes and contacts
    sim, other = vc.Simulator(hopper), vc.Simulator(hopper, **other)
    other.reset(hopper.on_ground(hopper.neutral(), 0.1))
    error = assert_untouched(sim, lambda: sim.restore(other.snapshot()), errors.ArrayError, match)
    assert "same robot" in str(error)
    sim.reset(other.state.q, other.state.v)  # the advice works


def test_other_obstacles_of_the_same_number():
    hopper = vc.load_robot("fly_hopper")
    one, two = (
        vc.Simulator(hopper, obstacles=vc.Obstacle.sphere(0.1, (5.0, 0.0, 0.0), name=name))
        for name in ("ball", "stone")
    )
    with pytest.raises(errors.ArrayError, match="base/ball.*base/stone"):
        two.restore(one.snapshot())


def test_what_is_no_view(sim):
    assert_untouched(sim, lambda: sim.run(0.1, viewer=3), errors.ArgumentError, r"vc\.view\(robot")


def test_messages_are_one_line(hopper):
    with pytest.raises(errors.ArgumentError) as caught:
        vc.Simulator(hopper.model)
    assert "\n" not in str(caught.value)


def test_height_of_a_start(hopper):
    with pytest.raises(errors.ArgumentError, match="height is 'up'"):
        hopper.on_ground(hopper.neutral(), "up")


def test_what_is_no_snapshot(sim):
    assert_untouched(sim, lambda: sim.restore(sim.state), errors.ArgumentError, "snapshot is State")


def test_snapshot_goes_on_with_another_time_step(hopper):
    coarse, fine = vc.Simulator(hopper, 0.01, ground=None), vc.Simulator(hopper, 0.001, ground=None)
    coarse.reset(v=[0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    coarse.run(0.1)
    restored = fine.restore(coarse.snapshot())
    assert np.array_equal(restored.q, coarse.state.q)
    q = fine.run(0.1).q[-1]
    fine.reset(coarse.state.q, coarse.state.v)
    # steps are solved to 1e-9 of the fastest speed, here some 10 rad/s, over 0.1 s
    assert q == pytest.approx(fine.run(0.1).q[-1], abs=1e-8)


@pytest.mark.parametrize("call", ["step", "run", "reset", "restore"])
@pytest.mark.parametrize("contact", [None, vc.PlasticContact()])
def test_a_controller_that_moves_its_own_simulator(hopper, call, contact):
    sim = vc.Simulator(hopper, contact=contact)
    snapshot = sim.snapshot()
    arguments = {"run": (0.1,), "restore": (snapshot,)}.get(call, ())

    def controller(state):
        getattr(sim, call)(*arguments)
        return [0.0, 0.0]

    with pytest.raises(errors.RunningError, match=rf"sim\.{call} was called .*second"):
        sim.run(0.1, controller)
    assert sim.state.time == 0.0
    assert len(sim.run(0.1)) == 10  # and it moves again


def test_a_guard_that_moves_its_own_simulator(hopper):
    def guard(state):
        if state.time > 0.0:
            sim.step()
        return 1.0

    sim = vc.Simulator(hopper, events=vc.Event(guard))
    for move in (sim.step, lambda: sim.run(0.1)):
        with pytest.raises(errors.RunningError, match="second"):
            move()
        assert sim.state.time == 0.0


def test_a_controller_looks_ahead_in_a_second_simulator(hopper):
    sim, model = vc.Simulator(hopper), vc.Simulator(hopper)
    ends = []

    def controller(state):
        model.restore(sim.snapshot())
        ends.append(model.step([0.1, 0.0]).q)
        return [0.1, 0.0]

    assert np.array_equal(sim.run(0.05, controller).q[1:], ends)


def test_trajectory_files(tmp_path):
    with pytest.raises(errors.TrajectoryFileError, match="no file"):
        vc.Trajectory.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(errors.TrajectoryFileError, match="not a saved trajectory"):
        vc.Trajectory.load(tmp_path / "text.npz")
    trajectory = vc.Simulator(vc.load_robot("walker")).run(0.01)
    with pytest.raises(errors.TrajectoryFileError, match="cannot write .*: No such file"):
        trajectory.save(tmp_path / "none" / "run.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(errors.TrajectoryFileError, match="not a trajectory"):
        vc.Trajectory.load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"tau": np.zeros((4, 3))}, errors.ArrayError, "tau"),
        ({"tau": None}, errors.ArrayError, r"is None; .*np\.zeros\(\(N, 2\)\)"),
        ({"q": None}, errors.ArrayError, r"'q': is None; robot\.neutral\(\)"),
        ({"tau": np.full((4, 2), np.nan)}, errors.ArrayError, "not finite"),
        ({"q": np.zeros((2, 3))}, errors.ArrayError, "argument 'q'"),
        ({"v": np.zeros((3, 10)), "tau": np.zeros((2, 4, 2))}, errors.ArrayError, "different"),
        ({"threads": 0}, errors.OptionError, "threads"),
        ({"threads": "all"}, errors.OptionError, "threads is 'all'"),
        ({"time_step": -1.0}, errors.TimeStepError, "time step"),
    ],
)
def test_rollout(hopper, changes, error, match):
    arguments = {"time_step": 0.01, "q": hopper.neutral(), "v": None, "tau": np.zeros((4, 2))}
    with pytest.raises(error, match=match):
        vc.rollout(hopper, **(arguments | changes))
