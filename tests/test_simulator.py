"""The simulator's contract: states, snapshots, runs, trajectories, rollouts."""

import dataclasses
import inspect
import pickle
import time as clock

import numpy as np
import pinocchio as pin
import pytest
from motion import bare, example_robot, random_state, robot_of

import vi_contact as vc


@pytest.fixture(scope="module")
def hopper():
    return bare(vc.load_robot("fly_hopper"))


def torque(state):
    return 0.05 * np.array([np.sin(5.0 * state.time), np.cos(7.0 * state.time)])


def start(robot, time_step=0.01, seed=0, speed=0.3, **options):
    sim = vc.Simulator(robot, time_step, **options)
    sim.reset(*random_state(robot, np.random.default_rng(seed), speed))
    return sim


def test_reset_gives_back_what_was_given():
    robot = robot_of(("continuous", "spherical", "planar", "prismatic"), free=True)
    q, v = random_state(robot, np.random.default_rng(1), 1.0)
    state = vc.Simulator(robot).reset(q, v, time=3.0)
    assert state.time == 3.0
    np.testing.assert_allclose(state.q, q, atol=1e-15, rtol=0.0)  # one rounding
    np.testing.assert_allclose(state.v, v, atol=1e-12, rtol=0.0)  # M^-1 M
    maximal = robot.to_maximal(q, v)
    np.testing.assert_allclose(state.p_WB, maximal.p_WB, atol=1e-14, rtol=0.0)
    np.testing.assert_allclose(state.v_WB, maximal.v_WB, atol=1e-11, rtol=0.0)
    np.testing.assert_allclose(state.w_WB_B, maximal.w_WB_B, atol=1e-11, rtol=0.0)
    signs = np.sign((state.quat_WB_xyzw * maximal.quat_WB_xyzw).sum(axis=1))
    np.testing.assert_allclose(
        state.quat_WB_xyzw, signs[:, None] * maximal.quat_WB_xyzw, atol=1e-14, rtol=0.0
    )


def test_states_are_immutable_and_stay_what_they_were(hopper):
    sim = start(hopper)
    state = sim.step(np.zeros(2))
    q, v = state.q.copy(), state.v.copy()
    fresh = sim.state
    sim.step(np.zeros(2))
    assert np.array_equal(fresh.q, q)
    assert np.array_equal(fresh.v, v)
    for array in (state.q, state.v, state.p_WB, state.quat_WB_xyzw, state.v_WB, state.w_WB_B):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    for name in ("time", "q", "energy", "comment"):
        with pytest.raises(vc.errors.ImmutableError, match=rf"{name} cannot be set.*sim\.reset"):
            setattr(state, name, 1.0)


SETTINGS = {
    "time_step": (0.001, r"vc\.Simulator\(robot, time_step=0\.001\).*snapshot"),
    "gravity": ((0.0, 0.0, -1.6), r"gravity=\(0\.0, 0\.0, -1\.6\)"),
    "ground": (None, "ground=None"),
    "options": (vc.SolverOptions(max_iterations=5), r"vc\.Simulator\(robot, options="),
    "joint_limits": (False, "joint_limits=False"),
    "solver": ("ipopt", "solver='ipopt'"),
    "contact": (vc.PlasticContact(), "contact="),
    "events": ((), "events="),
    "obstacles": ((), "obstacles="),
    "self_collision": (True, "self_collision=True"),
    "robot": (None, r"vc\.Simulator\(robot, \.\.\.\)"),
    "state": (None, r"sim\.reset\(q, v\)"),
    "info": (None, r"sim\.reset"),
    "timestep": (0.001, "did you mean 'time_step'"),
    "body_pairs": (None, "known: .*obstacles"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_a_simulator_cannot_be_set(hopper, name):
    """A free fall of a second at `sim.time_step = 0.001` once went 490 m."""
    sim = start(hopper)
    value, advice = SETTINGS[name]
    before = getattr(sim, name, None)
    with pytest.raises(vc.errors.ImmutableError, match=advice) as caught:
        setattr(sim, name, value)
    assert isinstance(caught.value, AttributeError)
    assert repr(getattr(sim, name, None)) == repr(before)


def test_every_setting_of_a_simulator_is_in_that_list():
    names = inspect.signature(vc.Simulator).parameters
    assert set(names) <= set(SETTINGS)


def arrays_of(thing, seen):
    """Every array that hangs on a robot's or simulator's public attributes."""
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, tuple):
        for item in thing:
            yield from arrays_of(item, seen)
    elif type(thing).__module__.startswith("vi_contact") and id(thing) not in seen:
        seen.add(id(thing))
        for name in dir(thing):
            if name[0] != "_" and not callable(value := getattr(thing, name)):
                yield from arrays_of(value, seen)


@pytest.mark.parametrize("name", ["fly_hopper_wheels", "jumper_free"])
def test_arrays_of_robots_simulators_and_states_are_read_only(name):
    robot = vc.load_robot(name)
    sim = vc.Simulator(robot)
    sim.reset(robot.on_ground(robot.neutral()))
    for thing in (sim, pickle.loads(pickle.dumps(robot))):
        found = list(arrays_of(thing, set()))
        assert len(found) > 50
        assert not any(array.flags.writeable for array in found)
    with pytest.raises(TypeError):
        robot.friction["foot"] = 2.0


def test_what_settings_are_made_of_cannot_be_set():
    hopper = vc.load_robot("fly_hopper")
    sim = vc.Simulator(
        hopper, ground=vc.Ground(normal=[0.0, 0.0, 2.0]), contact=vc.ElasticContact()
    )
    assert sim.ground.normal == (0.0, 0.0, 2.0)  # no list, which could be changed
    obstacle = vc.Obstacle.sphere(0.1)
    for thing, name, advice in (
        (sim.options, "max_iterations", r"dataclasses\.replace\(sim\.options, max_iterations=7\)"),
        (vc.IpoptOptions(), "tolerance", r"replace\(sim\.options, tolerance=7\)"),
        (sim.ground, "friction", r"ground=dataclasses\.replace\(sim\.ground, friction=7\)"),
        (sim.contact, "balance", "contact=dataclasses"),
        (vc.Event(len), "direction", "events="),
        (obstacle, "friction", "obstacles="),
        (hopper.joints[1], "damping", r"vc\.from_pinocchio"),
        (hopper.bodies[1], "mass", r"vc\.from_pinocchio"),
        (hopper.contacts[0], "radius", r"vc\.from_pinocchio"),
        (hopper.motors[0], "gear_ratio", r"replace\(part, gear_ratio=7\).*with_parts"),
        (hopper.loops[0], "kind", "with_parts"),
    ):
        with pytest.raises(vc.errors.ImmutableError, match=f"{name} cannot be set.*{advice}"):
            setattr(thing, name, 7)
        with pytest.raises(vc.errors.ImmutableError):
            delattr(thing, name)
        assert pickle.loads(pickle.dumps(thing)) is not None
    assert dataclasses.replace(sim.ground, friction=0.1).friction == 0.1


CHANGES = {
    "inertia of 'hip'": lambda model: setattr(model.inertias[2], "mass", 50.0),
    "placement of 'hip'": lambda model: model.jointPlacements[2].translation.__setitem__(0, 1.0),
    "position limits of 'knee'": lambda model: model.upperPositionLimit.__setitem__(-1, 0.1),
    "effort limits of 'knee'": lambda model: model.upperEffortLimit.__setitem__(-1, 0.1),
    "velocity limits of 'knee'": lambda model: model.upperVelocityLimit.__setitem__(-1, 0.1),
    "damping of 'knee'": lambda model: model.damping.__setitem__(-1, 0.1),
    "friction of 'knee'": lambda model: model.upperDryFrictionLimit.__setitem__(-1, 0.1),
    "armature of 'knee'": lambda model: model.armature.__setitem__(-1, 0.1),
    "damping of 'root_joint', 'hip', 'knee'": lambda model: model.damping.fill(0.1),
    r"vc.Simulator\(robot, gravity": lambda model: setattr(model.gravity, "linear", np.ones(3)),
    "its joints": lambda model: model.addJoint(
        1, pin.JointModelRX(), pin.SE3.Identity(), "another"
    ),
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_change_of_the_model_after_loading_is_an_error_that_names_it(words):
    robot = vc.load_robot("jumper_free")
    sim = vc.Simulator(robot)
    CHANGES[words](robot.model)
    state = sim.state
    for call in (
        sim.reset,
        lambda: sim.run(0.1),
        lambda: vc.Simulator(robot),
        lambda: vc.rollout(robot, 0.01, robot.neutral(), None, np.zeros((1, robot.nu))),
        lambda: robot.report,
        lambda: robot.with_parts(springs=()),
        lambda: pickle.dumps(robot),
    ):
        with pytest.raises(vc.errors.ModelChangedError, match=words) as caught:
            call()
        assert "vc.from_pinocchio(model" in str(caught.value)
    assert sim.state is state


def test_a_changed_model_makes_another_robot():
    """As the error says; what moves nothing, frames and named configurations, may be added."""
    robot = vc.load_robot("jumper_free")
    robot.model.addFrame(pin.Frame("tool", 1, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME), False)
    robot.model.referenceConfigurations["up"] = robot.neutral()
    vc.Simulator(robot).run(0.05)
    model = robot.model.copy()
    model.inertias[2].mass = 50.0
    heavy = vc.from_pinocchio(model, robot.collision_model, robot.visual_model)
    assert heavy.mass == pytest.approx(robot.mass + 50.0 - robot.bodies[1].mass)
    for each in (heavy, robot):
        vc.Simulator(each, ground=None).run(0.05)


def test_robots_are_immutable(hopper):
    mass = hopper.mass
    for name in ("mass", "name", "joints", "nq", "comment"):
        with pytest.raises(vc.errors.ImmutableError, match=f"{name} cannot be set.*with_parts"):
            setattr(hopper, name, 3)
    assert hopper.mass == mass
    with pytest.raises(AttributeError):
        hopper.mass = 3


def test_snapshot_restores_bit_for_bit(hopper):
    sim = start(hopper)
    sim.run(0.1, torque)
    snapshot = sim.snapshot()
    first = sim.run(0.3, torque)
    sim.restore(snapshot)
    assert sim.state.time == pytest.approx(0.1)
    second = sim.run(0.3, torque)
    for name in ("q", "v", "tau", "energy", "iterations"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    other = start(hopper, seed=5)
    other.restore(snapshot)
    assert np.array_equal(other.run(0.3, torque).q, first.q)


def test_reading_a_state_does_not_change_the_motion(hopper):
    quiet, curious = start(hopper), start(hopper)
    for _ in range(30):
        quiet.step()
        state = curious.step()
        assert np.isfinite(state.v).all() and np.isfinite(state.energy)
    assert np.array_equal(quiet.state.q, curious.state.q)


def test_steps_and_run_give_the_same_bits(hopper):
    one, many = start(hopper), start(hopper)
    trajectory = many.run(0.2)
    for k in range(20):
        state = one.step()
        assert np.array_equal(state.q, trajectory.q[k + 1])
        assert np.array_equal(state.v, trajectory.v[k + 1])
    assert state.time == pytest.approx(0.2)
    assert state.energy == trajectory.energy[-1]


def test_run_takes_the_rounded_number_of_steps(hopper):
    assert len(start(hopper).run(0.1499)) == 15
    empty = start(hopper).run(0.0)
    assert len(empty) == 0
    assert empty.q.shape == (1, hopper.nq)


def test_controller_is_reset_first(hopper):
    class Controller:
        calls = ()

        def reset(self):
            self.calls = (*self.calls, "reset")

        def __call__(self, state):
            self.calls = (*self.calls, "call")
            return np.zeros(2)

    controller = Controller()
    start(hopper).run(0.02, controller)
    assert controller.calls == ("reset", "call", "call")


def test_progress_bar_writes_to_stderr_only(hopper, capsys):
    start(hopper).run(0.05, torque, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "100 % of 5 steps" in captured.err


def test_trajectory_shapes_and_file(hopper, tmp_path):
    trajectory = start(hopper).run(0.05, torque)
    n, bodies = 5, len(hopper.bodies)
    shapes = {
        "time": (n + 1,),
        "q": (n + 1, hopper.nq),
        "v": (n + 1, hopper.nv),
        "tau": (n, 2),
        "energy": (n + 1,),
        "linear_momentum": (n + 1, 3),
        "angular_momentum": (n + 1, 3),
        "constraint_error": (n + 1,),
        "p_WB": (n + 1, bodies, 3),
        "quat_WB_xyzw": (n + 1, bodies, 4),
        "iterations": (n,),
        "residuals": (n,),
    }
    for name, shape in shapes.items():
        assert getattr(trajectory, name).shape == shape, name
    trajectory.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    for field in dataclasses.fields(vc.Trajectory):
        saved, read = getattr(trajectory, field.name), getattr(loaded, field.name)
        if field.name == "ledger":
            assert np.array_equal(saved.motor, read.motor)
            assert np.array_equal(saved.defect, read.defect)
        elif field.name != "robot":  # not in the file
            assert np.array_equal(saved, read), field.name
    assert loaded.status is vc.Status.CONVERGED


def test_rollout_equals_single_runs_bit_for_bit(hopper):
    rng = np.random.default_rng(2)
    states = [random_state(hopper, rng, 0.3) for _ in range(5)]
    q, v = (np.array(part) for part in zip(*states, strict=True))
    tau = 0.05 * rng.normal(size=(5, 30, 2))
    many = vc.rollout(hopper, 0.01, q, v, tau, threads=3)
    assert many.status == (vc.Status.CONVERGED,) * 5
    for i in range(5):
        sim = vc.Simulator(hopper, 0.01)
        sim.reset(q[i], v[i])
        rows = iter(tau[i])
        single = sim.run(0.3, lambda _, rows=rows: next(rows))
        assert np.array_equal(many.q[i], single.q)
        assert np.array_equal(many.v[i], single.v)
    alone = vc.rollout(hopper, 0.01, q, v, tau, threads=1)
    assert np.array_equal(alone.q, many.q)
    shared = vc.rollout(hopper, 0.01, q[0], v[0], tau[0])
    assert np.array_equal(shared.q[0], many.q[0])


def test_massless_intermediate_link_is_exact():
    """A universal joint made of two hinges with a massless link between them."""
    import pinocchio as pin

    robots = []
    for mass in (0.0, 1e-7):
        model = pin.Model()
        first = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "x")
        if mass:
            cross = pin.Inertia(mass, np.zeros(3), mass * 1e-2 * np.eye(3))
            model.appendBodyToJoint(first, cross, pin.SE3.Identity())
        second = model.addJoint(first, pin.JointModelRY(), pin.SE3.Identity(), "y")
        bob = pin.Inertia(1.0, np.array([0.0, 0.0, -0.5]), 0.01 * np.eye(3))
        model.appendBodyToJoint(second, bob, pin.SE3.Identity())
        robots.append(vc.from_pinocchio(model))
    ends = []
    for robot in robots:
        sim = vc.Simulator(robot, 0.01)
        sim.reset([0.4, -0.3], [1.0, 2.0])
        ends.append(sim.run(1.0).q[-1])
    assert robots[0].bodies[0].mass == 0.0
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)  # the tenth of a milligram's effect


def test_python_overhead_of_a_step_is_small(hopper):
    sim = start(hopper)
    tau = np.zeros(2)
    compiled = sim._stepper
    best = []
    for run in (lambda: sim.step(tau), lambda: compiled.step(tau, None)):
        times = []
        for _ in range(5):
            begin = clock.perf_counter()
            for _ in range(300):
                run()
            times.append((clock.perf_counter() - begin) / 300)
        best.append(min(times))
    assert best[0] - best[1] < 15e-6


def test_every_example_of_a_kind_flies():
    for name in ("go2.urdf", "talos_full_v2.urdf", "icub.urdf", "panda.urdf"):
        robot = example_robot(name)
        sim = vc.Simulator(robot, 0.005)
        trajectory = sim.run(0.5)
        assert trajectory.status is vc.Status.CONVERGED
        assert np.abs(trajectory.ledger.defect).max() < 1e-7, name  # of hundreds of joules


def test_recorded_arrays_must_have_room():
    sim = vc.Simulator(vc.load_robot("walker"), 0.01)
    short = np.empty((2, 4))
    with pytest.raises(ValueError, match="counts has no room"):
        sim._stepper.run(5, None, False, None, None, None, None, None, short)
