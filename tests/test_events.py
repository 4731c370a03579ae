"""Hybrid events: crossings are solved for, resets jump, and the passive walker is followed."""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import vi_contact as vc
from vi_contact.errors import ArgumentError, ArrayError, EventError, StepFailedError, ZenoError

WALKER = vc.load_robot("walker")
A = np.pi / 6.0  # half the angle between the legs
GRAVITY = 9.81
M, R, INERTIA, KAPPA = 1.0, 1.0, 0.5, 0.2


# ------------------------------------------------------------ a falling body
@pytest.fixture(scope="module")
def ball(tmp_path_factory):
    path = tmp_path_factory.mktemp("ball") / "ball.urdf"
    path.write_text(
        '<robot name="ball"><link name="ball"><inertial><mass value="2"/><inertia ixx="0.1" ixy="0"'
        ' ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link></robot>'
    )
    return vc.load_robot(path, contacts="none", base="free")


def at(height, speed=0.0):
    return [0, 0, height, 0, 0, 0, 1], [0, 0, speed, 0, 0, 0]


def height(state):
    return state.q[2]


def bounce(restitution):
    def reset(state):
        v = state.v.copy()
        v[2] *= -restitution
        return state.q, v

    return reset


@pytest.mark.parametrize("time_step", [0.1, 0.01, 0.003])
def test_crossing_time_is_exact_in_free_fall(ball, time_step):
    """Constant gravity is integrated exactly, so the event must be found exactly."""
    sim = vc.Simulator(ball, time_step, events=[vc.Event(height, terminal=True, name="ground")])
    sim.reset(*at(1.0))
    trajectory = sim.run(2.0)
    [what] = trajectory.occurrences
    assert (what.kind, what.name) == ("event", "ground")
    assert what.time == pytest.approx(np.sqrt(2.0 / GRAVITY), abs=1e-13)
    assert trajectory.time[-1] == what.time == sim.state.time
    assert abs(trajectory.q[-1, 2]) < 1e-13


def test_both_directions_and_several_guards(ball):
    """Thrown up through 1 m and down again; a second guard fires at the top."""
    events = [
        vc.Event(lambda state: height(state) - 1.0, name="both"),
        vc.Event(lambda state: height(state) - 1.0, direction=1, name="up"),
        vc.Event(lambda state: height(state) - 1.0, direction=-1, name="down"),
        vc.Event(lambda state: state.v[2], name="top"),
    ]
    sim = vc.Simulator(ball, 0.02, events=events)
    sim.reset(*at(0.5, speed=5.0))
    trajectory = sim.run(1.0)
    root = np.sqrt(25.0 - GRAVITY)
    up, down = (5.0 - root) / GRAVITY, (5.0 + root) / GRAVITY
    expected = [("both", up), ("up", up), ("top", 5.0 / GRAVITY), ("both", down), ("down", down)]
    assert [what.name for what in trajectory.occurrences] == [name for name, _ in expected]
    for what, (_, time) in zip(trajectory.occurrences, expected, strict=True):
        assert what.time == pytest.approx(time, abs=1e-12)
    assert (np.diff(trajectory.time) > 0.0).all()  # no reset, no node twice
    exact = 0.5 + 5.0 * trajectory.time - 0.5 * GRAVITY * trajectory.time**2
    np.testing.assert_allclose(trajectory.q[:, 2], exact, atol=1e-12)


def test_reset_bounces_and_the_grid_goes_on(ball):
    sim = vc.Simulator(ball, 0.01, events=[vc.Event(height, bounce(0.8), -1, name="bounce")])
    sim.reset(*at(1.0))
    trajectory = sim.run(1.5)
    fall = np.sqrt(2.0 / GRAVITY)
    expected = [fall, fall * (1 + 2 * 0.8), fall * (1 + 2 * 0.8 + 2 * 0.64)]
    times = [what.time for what in trajectory.occurrences]
    np.testing.assert_allclose(times, expected[: len(times)], atol=1e-12)
    assert len(times) == 2
    for time in times:  # the node before the reset and the one after it
        k = np.flatnonzero(trajectory.time == time)
        assert len(k) == 2
        assert trajectory.v[k[1], 2] == pytest.approx(-0.8 * trajectory.v[k[0], 2], rel=1e-12)
        assert trajectory.ledger.impact[k[0]] == pytest.approx(
            -0.36 * trajectory.kinetic[k[0]], rel=1e-12
        )
    assert trajectory.time[-1] == pytest.approx(1.5)
    assert np.abs(trajectory.ledger.defect).max() < 1e-12  # of 20 J


def test_infinitely_many_bounces_are_an_error_that_says_so(ball):
    sim = vc.Simulator(ball, 0.01, events=[vc.Event(height, bounce(0.5), -1, name="bounce")])
    sim.reset(*at(0.1))
    fall = np.sqrt(0.2 / GRAVITY)
    with pytest.raises(ZenoError, match="more than 100 events \\(bounce\\)") as error:
        sim.run(2.0)
    assert error.value.time == pytest.approx(3.0 * fall, abs=1e-6)  # 1 + 2 (1/2 + 1/4 + ...)
    assert sim.state.time < error.value.time


def test_without_throw_infinitely_many_bounces_end_the_trajectory(ball):
    """It has every bounce that was followed, and the state is its end."""
    sim = vc.Simulator(ball, 0.01, events=[vc.Event(height, bounce(0.5), -1, name="bounce")])
    sim.reset(*at(0.1))
    trajectory = sim.run(2.0, throw=False)
    assert trajectory.status is vc.Status.ZENO
    assert "zeno" in repr(trajectory)
    fall = np.sqrt(0.2 / GRAVITY)
    times = np.array([what.time for what in trajectory.occurrences])
    assert len(times) > 100
    expected = fall * (3.0 - 4.0 * 0.5 ** np.arange(1, 21))  # 1 + 2 (1/2 + 1/4 + ...)
    np.testing.assert_allclose(times[:20], expected, atol=1e-9)  # 1e-11 s, left out, by bounce
    assert trajectory.time[-1] == times[-1] == sim.state.time
    np.testing.assert_array_equal(trajectory.q[-1], sim.state.q)
    np.testing.assert_array_equal(trajectory.v[-1], sim.state.v)
    assert np.abs(trajectory.ledger.defect).max() < 1e-12  # of 2 J
    assert trajectory.ledger.sum.sum() == pytest.approx(-2.0 * GRAVITY * 0.1, rel=1e-9)


def test_a_failure_inside_a_controller_is_not_that_of_the_run(ball):
    """A second simulator, to look ahead in, may fail: that is the controller's to catch."""

    def looks_ahead(state):
        raise StepFailedError(0.0, "SINGULAR", 1.0, "elsewhere")

    for events in ((), [vc.Event(height, terminal=True)]):
        sim = vc.Simulator(ball, 0.01, events=events)
        sim.reset(*at(1.0))
        with pytest.raises(StepFailedError, match="elsewhere"):
            sim.run(0.1, looks_ahead, throw=False)


def test_bad_events_are_refused(ball):
    for arguments in ((None,), (height, 3), (height, None, 2)):
        with pytest.raises(ArgumentError):
            vc.Event(*arguments)
    with pytest.raises(ArgumentError, match="events"):
        vc.Simulator(ball, events=[height])
    cases = (
        (vc.Event(lambda state: "high"), EventError, "no number"),
        (vc.Event(lambda state: float("nan")), EventError, "gave nan"),
        (vc.Event(height, lambda state: state.q), EventError, "pair"),
        (vc.Event(height, lambda state: (state.q[:3], state.v)), ArrayError, "'q'.*event 'event'"),
        (vc.Event(lambda state: {}["x"], name="foot"), EventError, "'foot'.*guard.*KeyError: 'x'"),
        (vc.Event(lambda state: float("a"), name="toe"), EventError, "'toe'.*guard.*ValueError"),
        (vc.Event(height, lambda state: 1 / 0, name="hit"), EventError, "'hit'.*reset.*Zero"),
    )
    for event, kind, words in cases:
        sim = vc.Simulator(ball, events=[event])
        sim.reset(*at(0.1))
        with pytest.raises(kind, match=words):
            sim.run(1.0)


def test_events_work_beside_contact_by_time_stepping():
    """The hopper's fall through a height is located; its foot lands by time stepping."""
    hopper = vc.load_robot("fly_hopper_rail").with_parts(springs=())
    q = hopper.on_ground(hopper.neutral())
    q[0] += 0.1
    drop = q[0]
    event = vc.Event(lambda state: state.q[0] - (drop - 0.05), name="half way")
    sim = vc.Simulator(hopper, 0.01, events=[event])
    sim.reset(q)
    trajectory = sim.run(0.3)
    assert trajectory.occurrences[0].time == pytest.approx(np.sqrt(0.1 / GRAVITY), abs=1e-9)
    assert trajectory.contacts["foot"].gap.min() > -1e-11
    assert trajectory.contacts["foot"].force[:, 2].max() > 0.0
    assert [name for _, name in trajectory.impacts] == ["foot"]


# ------------------------------------------------------------ the passive walker
def step_change(state):
    """Impact map (4): foot and its speed stay, the leg's angle jumps, its rate loses cos 2a."""
    (x, theta), (slip, rate) = state.q, state.v
    return [x, theta + 2.0 * A], [slip, np.cos(2.0 * A) * rate]


EVENTS = (
    vc.Event(lambda state: state.q[1] + A, step_change, direction=-1, name="step"),
    vc.Event(lambda state: state.q[1] - np.pi / 2.0, terminal=True, name="fall"),
)


def walk(time_step, rate=-4.0, robot=WALKER, slip=0.0):
    sim = vc.Simulator(robot, time_step, events=EVENTS)
    sim.reset([0.0, A], [slip, rate])
    return sim.run(4.0)


def continuous(rate, kappa=KAPPA):
    """Events (name, time, energy before, energy after) and the last state, to 1e-12."""

    def energy(y):
        (_, theta, slip, rate) = y
        kinetic = 0.5 * M * slip**2 + M * R * np.cos(theta) * slip * rate
        return kinetic + 0.5 * (INERTIA + M * R**2) * rate**2 + M * GRAVITY * R * np.cos(theta)

    def motion(_, y):
        (_, theta, slip, rate) = y
        c = M * R * np.cos(theta)
        mass = np.array([[M, c], [c, INERTIA + M * R**2]])
        force = [-kappa * slip + M * R * np.sin(theta) * rate**2, M * GRAVITY * R * np.sin(theta)]
        return [slip, rate, *np.linalg.solve(mass, force)]

    def impact(_, y):
        return y[1] + A

    def fall(_, y):
        return y[1] - np.pi / 2.0

    impact.terminal = fall.terminal = True
    impact.direction = -1
    time, y, events = 0.0, np.array([0.0, A, 0.0, rate]), []
    while not events or events[-1][0] == "step":
        result = solve_ivp(
            motion, (time, 4.0), y, "DOP853", rtol=1e-13, atol=1e-14, events=[impact, fall]
        )
        time, before = result.t[-1], result.y[:, -1]
        y = before
        if len(result.t_events[0]):
            y = before * [1.0, 1.0, 1.0, np.cos(2.0 * A)] + np.array([0.0, 2.0 * A, 0.0, 0.0])
        name = "step" if len(result.t_events[0]) else "fall"
        events.append((name, time, energy(before), energy(y)))
    return events, y


def events_of(trajectory):
    rows = []
    for what in trajectory.occurrences:
        nodes = np.flatnonzero(trajectory.time == what.time)
        rows.append((what.name, what.time, *trajectory.energy[nodes[[0, -1]]]))
    return rows


def test_passive_walk_follows_the_continuous_one_at_second_order():
    """Two steps and a fall: times, energies before and after, and the end."""
    expected, end = continuous(-4.0)
    assert [name for name, *_ in expected] == ["step", "step", "fall"]
    errors = []
    for time_step in (0.01, 0.005, 0.0025):
        trajectory = walk(time_step)
        found = events_of(trajectory)
        assert [name for name, *_ in found] == [name for name, *_ in expected]
        ends = np.abs(np.concatenate([trajectory.q[-1], trajectory.v[-1]]) - end)
        rows = np.array([row[1:] for row in found]) - np.array([row[1:] for row in expected])
        errors.append([*np.abs(rows).max(axis=0), ends.max()])
        assert np.abs(trajectory.ledger.defect).max() < 1e-11  # of 20 J
    slopes = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (slopes.mean(axis=0) > 1.9).all()  # second order, in every quantity
    assert np.max(errors[-1]) < 5e-5  # times [s], energies [J], end [m, rad, per s]


@pytest.mark.parametrize("rate", [-2.5, -3.0, -4.0, -5.0, -6.0, -8.0])
def test_no_energy_is_gained(rate):
    trajectory = walk(0.005, rate)
    steps = [row for row in events_of(trajectory) if row[0] == "step"]
    for _, _, before, after in steps:
        assert after < before
    assert trajectory.ledger.impact.max() <= 0.0
    assert trajectory.ledger.damping.max() <= 0.0
    scheme = np.cumsum(trajectory.ledger.integration)
    assert np.abs(scheme).max() < 2e-4 * trajectory.energy[0]  # oscillates, second order


def test_without_friction_momentum_and_energy_stay(tmp_path):
    """kappa = 0: horizontal momentum between impacts, and energy up to its oscillation."""
    text = Path(WALKER.path).read_text().replace('damping="0.2"', 'damping="0"')
    path = tmp_path / "walker.urdf"
    path.write_text(text)
    trajectory = walk(0.005, robot=vc.load_robot(path))
    jumps = np.flatnonzero(np.diff(trajectory.time) == 0.0)
    assert len(jumps) >= 1
    for stride in np.split(np.arange(len(trajectory.time)), jumps + 1):
        momentum = trajectory.linear_momentum[stride, 0]
        assert np.abs(momentum - momentum[0]).max() < 1e-11  # round-off of hundreds of steps
        assert np.ptp(trajectory.energy[stride]) < 2e-3  # of 20 J, falls with h^2
    assert not trajectory.ledger.damping.any()


# ------------------------------------------------------------ functions of time
def push(time):
    """Smooth, on the jumper's slide and knee."""
    return np.array([200.0 * np.sin(9.0 * time), 0.0, 0.0, 0.0, 2.0 * np.cos(7.0 * time)])


SERVO = {"v": 0.0, "kp": [0.0, 0.0, 0.0, 0.0, 8.0], "kd": 0.5}


@pytest.mark.parametrize("crossings", [0, 1], ids=["plain", "an event"])
@pytest.mark.parametrize(
    ("drive", "order"),
    [
        (vc.StepFunction(push), 1.0),
        (vc.StepFunction(push, at="middle"), 2.0),
        (vc.JointCommand(tau=push), 2.0),
        (vc.JointCommand(q=lambda time: 0.1 * push(time), **SERVO), 2.0),
    ],
    ids=["end", "middle", "torque", "reference"],
)
def test_order_of_drives_that_are_functions_of_time(drive, order, crossings):
    """An event on the way cuts a step wherever it happens."""
    jumper = vc.load_robot("jumper")
    low = vc.Event(lambda state: state.q[0] + 0.05, name="low")
    ends = []
    for steps in (40, 80, 160, 320):
        sim = vc.Simulator(jumper, 0.4 / steps, ground=None, events=[low] * crossings)
        sim.reset(jumper.neutral())
        trajectory = sim.run(0.4, drive)
        assert len(trajectory.occurrences) == crossings
        ends.append(trajectory.q[-1])
    changes = np.abs(np.diff(ends, axis=0)).max(axis=1)
    np.testing.assert_allclose(np.log2(changes[:-1] / changes[1:]), order, atol=0.15)


def test_step_functions_are_read_at_the_end_or_the_middle():
    seen = []

    def nothing(time):
        seen.append(time)
        return np.zeros(5)

    sim = vc.Simulator(vc.load_robot("jumper"), 0.01, ground=None)
    for at in ("end", "middle"):
        sim.reset()
        sim.run(0.03, vc.StepFunction(nothing, at=at))
    np.testing.assert_allclose(seen, [0.01, 0.02, 0.03, 0.005, 0.015, 0.025], atol=1e-15)
    with pytest.raises(vc.errors.ArgumentError, match="'end' or 'middle'"):
        vc.StepFunction(nothing, at="start")
