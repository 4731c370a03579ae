"""Mass matrices that are singular, or all but: no such step counts as solved, and none crashes."""

import numpy as np
import pinocchio as pin
import pytest
from motion import example_robot
from urdf_text import joint, link, robot, write

import vi_contact as vc
from vi_contact.errors import StepFailedError

ROD = (
    '<inertial><origin xyz="0 0 {0}"/><mass value="1"/>'
    '<inertia ixx=".1" ixy="0" ixz="0" iyy=".1" iyz="0" izz="0"/></inertial>'
)
FREE = '<limit effort="100" velocity="100"/>'


def rods(tmp_path):
    """Two rods without thickness on a hinge: in line, nothing turns about their axis.

    At neutral they are bent by a radian, or the loader would give them inertia.
    """
    hinge = joint("j", "a", "b", "continuous", limit="")
    text = robot(
        link("a", ROD.format(1.0)),
        link("b", ROD.format(-0.5)),
        hinge.replace('xyz="0 0 0"', 'xyz="0 0 0" rpy="0 1 0"'),
    )
    return vc.load_robot(write(tmp_path, text), contacts="none")


def turned(loaded, angle):
    """The free robot with its hinge turned."""
    q = loaded.neutral()
    q[7:] = np.cos(angle), np.sin(angle)
    return q


def test_thin_rods_in_line_are_an_error_and_no_crash(tmp_path):
    loaded = rods(tmp_path)
    sim = vc.Simulator(loaded, ground=None)
    before = sim.reset(turned(loaded, -1.0)).q
    with pytest.raises(StepFailedError, match="no inertia to move against") as caught:
        sim.run(0.1)
    assert caught.value.status == "SINGULAR"
    np.testing.assert_array_equal(sim.state.q, before)
    assert np.isfinite(sim.state.v).all()


def test_thin_rods_that_are_bent_move(tmp_path):
    loaded = rods(tmp_path)
    sim = vc.Simulator(loaded, 0.001, ground=None, gravity=(0.0, 0.0, 0.0))
    v = np.array([0.1, 0.2, -0.1, 0.3, -0.2, 0.5, 0.4])
    sim.reset(turned(loaded, 0.0), v)
    t = sim.run(0.5)
    assert t.status is vc.Status.CONVERGED
    assert np.ptp(t.q[:, 8]) > 0.05  # the hinge moves
    # second order: its steps of a millisecond leave 1e-6 of turns at 1 rad/s
    np.testing.assert_allclose(t.energy, t.energy[0], rtol=1e-5)
    np.testing.assert_allclose(t.angular_momentum, t.angular_momentum[[0] * 501], atol=1e-12)


@pytest.mark.parametrize("free", [True, False])
def test_thin_rods_in_line_at_neutral_run(tmp_path, free):
    """The loader gives them what they lack, and says so."""
    text = robot(
        *([] if free else [link("world", ""), joint("w", "world", "a", "continuous", limit="")]),
        link("a", ROD.format(1.0)),
        link("b", ROD.format(-0.5)),
        joint("j", "a", "b", "continuous", limit=""),
    )
    loaded = vc.load_robot(write(tmp_path, text), contacts="none")
    trajectory = vc.Simulator(loaded, ground=None).run(0.5)
    assert np.abs(trajectory.ledger.defect).max() < 1e-9
    if free:
        assert "izz" in str(loaded.report) or "inertia" in str(loaded.report)
        np.testing.assert_allclose(trajectory.v[-1, 2], -0.5 * 9.81, rtol=1e-9)


def gimbal(tmp_path):
    """A hand on three axes through one point, two light links between; locked at q = (0, -1, 0).

    There the first axis and the last coincide. At neutral they are a radian apart, or the loader
    would give the links inertia.
    """
    light = (
        '<inertial><mass value="1e-12"/><inertia ixx="1e-16" ixy="0" ixz="0" iyy="1e-16" iyz="0" '
        'izz="1e-16"/></inertial>'
    )
    last = joint("c", "two", "hand", limit=FREE)
    text = robot(
        link("world", ""),
        link("one", light),
        link("two", light),
        link("hand"),
        joint("a", "world", "one", limit=FREE),
        joint("b", "one", "two", limit=FREE, axis="1 0 0"),
        last.replace('xyz="0 0 0"', 'xyz="0 0 0" rpy="1 0 0"'),
    )
    return vc.load_robot(write(tmp_path, text), contacts="none")


def pivot(loaded, q):
    """The least part of a joint's inertia that is left when the joints beyond it are free."""
    model, data = loaded.model, loaded.model.createData()
    diagonal = np.diag(pin.crba(model, data, q)).copy()
    pin.cholesky.decompose(model, data)
    return (np.array(data.D) / diagonal).min()


@pytest.mark.parametrize(("angle", "singular"), [(1e-6, True), (1e-7, True), (1e-2, False)])
def test_axes_that_all_but_coincide(tmp_path, angle, singular):
    """A pivot of angle^2: 1e-12 is the round-off of a file's angles, 1e-4 is a robot."""
    loaded = gimbal(tmp_path)
    sim = vc.Simulator(loaded, 0.001, ground=None, gravity=(0, 0, 0), joint_limits=False)
    before = sim.reset([0.0, angle - 1.0, 0.0])
    assert (pivot(loaded, before.q) < 1e-9) == singular
    if not singular:
        assert np.abs(sim.step([1e-4, 0.0, 0.0]).v).max() < 10.0  # 1e-4 N m, 1e-5 kg m2, 1 ms
        return
    with pytest.raises(StepFailedError) as caught:
        sim.step([0.01, 0.0, 0.0])
    assert caught.value.status == "SINGULAR"
    assert np.isfinite(sim.state.v).all()
    np.testing.assert_array_equal(sim.state.q, before.q)


def test_icub_never_turns_its_neck_at_a_thousand_radians_per_second():
    """Angles of 1.5708 leave the neck 1e-11 of its inertia: only its damping holds it."""
    icub = example_robot("icub.urdf")
    sim = vc.Simulator(icub, 0.001, ground=None, joint_limits=False)
    tau = np.zeros(icub.nu)
    tau[icub.actuated_joints.index("neck_roll")] = 0.01
    try:
        speed = np.abs(sim.step(tau).v).max()
    except StepFailedError as error:
        assert error.status == "SINGULAR"
        return
    assert speed < 20.0  # 0.01 N m over 1 ms on the next link's 1e-6 kg m^2


def double_pendulum(tmp_path):
    box = (
        '<inertial><origin xyz="0.25 0 0"/><mass value="1"/><inertia ixx="0.0004" ixy="0" ixz="0" '
        'iyy="0.021" iyz="0" izz="0.021"/></inertial><collision><origin xyz="0.25 0 0"/><geometry>'
        '<box size="0.5 0.05 0.05"/></geometry></collision>'
    )
    text = robot(
        link("world", ""),
        link("a", box),
        link("b", box),
        joint("j_a", "world", "a", "continuous", limit=FREE, origin="0 0 0.4"),
        joint("j_b", "a", "b", "continuous", limit=FREE, origin="0.5 0 0"),
    )
    return vc.load_robot(write(tmp_path, text))


def test_links_that_move_in_a_plane_land_without_nan(tmp_path):
    """A contact across the plane cannot move: its block of mobilities is singular."""
    loaded = double_pendulum(tmp_path)
    sim = vc.Simulator(loaded, 0.005, ground=vc.Ground(0.8))
    rng = np.random.default_rng(0)
    for _ in range(40):
        first, second = rng.uniform(-1.5, -0.2), rng.uniform(-0.3, 0.3)  # up is negative
        q = np.array([np.cos(first), np.sin(first), np.cos(second), np.sin(second)])
        sim.reset(q, rng.normal(size=2))
        t = sim.run(1.0, throw=False)
        for name in ("q", "v", "energy"):
            assert np.isfinite(getattr(t, name)).all()
        assert np.isfinite(t.ledger.sum).all()
        assert t.status is vc.Status.CONVERGED


def test_what_is_not_finite_is_never_taken(tmp_path):
    """A torque of 1e300 N m overflows; the state before the step stands."""
    loaded = double_pendulum(tmp_path)
    sim = vc.Simulator(loaded, 0.005, ground=None)
    before = sim.state.q
    with pytest.raises(StepFailedError):
        sim.step(np.full(loaded.nu, 1e300), wrenches={"b": np.full(6, 1e308)})
    np.testing.assert_array_equal(sim.state.q, before)
    assert np.isfinite(sim.step().v).all()
