"""Event-driven contact: the published jumper, and what elastic and plastic contacts must keep."""

import numpy as np
import pinocchio as pin
import pytest
from scipy.integrate import solve_ivp
from shapes import box, sphere
from support import example

import vi_contact as vc
from vi_contact.errors import ArgumentError, OptionError, StepFailedError, ZenoError
from vi_contact.simulation.replay import save_failure

JUMPER = vc.load_robot("jumper")
WEIGHT = JUMPER.mass * 9.81
STRAIGHT_HEIGHT = 0.882  # of the hip, standing


# ------------------------------------------------------------ plastic: the published release times
def lift_off(time_step, refinement):
    """The jumper stands upright; a rising force f = 3/2 G (t + dt) pulls its torso up."""
    sim = vc.Simulator(JUMPER, time_step, contact=vc.PlasticContact(refinement))
    sim.reset(JUMPER.on_ground(JUMPER.neutral()))
    return sim.run(0.7, vc.StepFunction(lambda t: [1.5 * WEIGHT * (t + time_step), 0, 0, 0, 0]))


def predicted(times, time_step):
    """The one-dimensional formula: t_k from the forces of the two last intervals."""
    before, node, end = times
    force = [1.5 * (t + time_step) for t in (node, end)]
    return node + (node - before) * (1.0 - force[0]) / (force[1] - 1.0)


RELEASES = {  # nodes t_k-2, t_k-1 and the nominal end of the step, refinements, published time
    ("bisection", 0.015): ((0.63, 0.645, 0.66), 0, 0.6570),
    ("bisection", 0.0075): ((0.658125, 0.6590625, 0.66), 3, 0.6591796875),
    ("subdivision", 0.0075): ((0.657, 0.6585, 0.66), 5, 0.6597),
}


@pytest.mark.parametrize(("refinement", "time_step"), RELEASES)
def test_release_times_are_the_published_ones(refinement, time_step):
    trajectory = lift_off(time_step, refinement)
    times, refinements, published = RELEASES[refinement, time_step]
    [release] = trajectory.occurrences
    assert (release.kind, release.name, release.refinements) == ("release", "foot", refinements)
    # solved to round-off: 1e-11 s where the force grows by 0.5 N within a microsecond
    assert release.time == pytest.approx(predicted(times, time_step), abs=1e-9)
    assert release.time == pytest.approx(published, abs=1e-9)
    for node in times[:2]:
        assert np.abs(trajectory.time - node).min() < 1e-12
    gap = trajectory.contacts["foot"].gap
    assert np.abs(gap[trajectory.time <= release.time]).max() < 1e-14
    assert (gap[trajectory.time > release.time] > 0.0).all()


@pytest.mark.parametrize("coarse", [((0.6525, 0.65625, 0.66)), ((0.65625, 0.658125, 0.66))])
def test_the_bisections_before_would_release_after_the_step(coarse):
    assert predicted(coarse, 0.0075) > 0.66


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_fewer_parts_would_release_after_the_step(parts):
    length = 0.0075 / parts
    assert predicted((0.66 - 2 * length, 0.66 - length, 0.66), 0.0075) > 0.66


def test_without_refinement_the_next_step_would_release_in_the_past():
    assert predicted((0.6525, 0.66, 0.6675), 0.0075) < 0.66


def test_foot_carries_the_weight_until_it_comes_off():
    trajectory = lift_off(0.0075, "bisection")
    force = trajectory.contacts["foot"].force
    held = np.flatnonzero(trajectory.time[1:] < 0.65)[:-1]
    pull = 1.5 * WEIGHT * (trajectory.time[held] + 0.5 * 0.0075 + 0.0075)  # mean of both intervals
    pull[0] = 1.5 * WEIGHT * 2.0 * 0.0075  # none was before
    # multipliers balance forces to the step's tolerance, 1e-10 N s over 7.5 ms
    np.testing.assert_allclose(force[held, 2], WEIGHT - pull, atol=1e-7)
    assert np.abs(force[:, :2]).max() < 1e-7
    assert not force[trajectory.time[:-1] > 0.66].any()
    assert np.abs(trajectory.ledger.defect).max() < 1e-10  # of 350 J, round-off


def test_a_jump_of_the_force_releases_where_it_jumps():
    """No length of the step gives a multiplier of zero: bisection closes in on the jump."""
    sim = vc.Simulator(JUMPER, 0.01, contact=vc.PlasticContact())
    sim.reset(JUMPER.on_ground(JUMPER.neutral()))
    force = vc.StepFunction(lambda t: [WEIGHT * (1.2 if t > 0.0601 else 0.2), 0, 0, 0, 0])
    [release] = sim.run(0.1, force).occurrences
    assert release.time == pytest.approx(0.0601, abs=0.01 / 16)


# ------------------------------------------------------------ plastic: landing
def bent(robot, height, seed=0):
    """Hip and knee bent, foot above the ground; the leg turns about the vertical axis."""
    q, v = robot.neutral(), np.zeros(robot.nv)
    hip = robot.joints[robot.joint_names.index("hip")]
    q[hip.idx_q : hip.idx_q + 4] = pin.Quaternion(pin.rpy.rpyToMatrix(0.1, -0.5, 0.0)).coeffs()
    q[-1] = 0.9
    q = robot.on_ground(q)
    q[2 if len(robot.base_dofs) else 0] += height
    v[hip.idx_v : hip.idx_v + 3] = [0.3, 0.2, 3.0]
    return q, v


@pytest.mark.parametrize("time_step", [0.01, 0.005, 0.0025])
@pytest.mark.parametrize("name", ["jumper", "jumper_free"])
def test_plastic_landing_holds_the_foot_and_takes_energy_once(name, time_step):
    robot = vc.load_robot(name)
    sim = vc.Simulator(robot, time_step, contact=vc.PlasticContact(), joint_limits=False)
    sim.reset(*bent(robot, 0.1))
    trajectory = sim.run(0.25)
    [(time, contact)] = trajectory.impacts
    assert contact == "foot"
    assert time == pytest.approx(np.sqrt(0.2 / 9.81), abs=0.01)  # the leg swings meanwhile
    k = int(np.flatnonzero(trajectory.time == time)[0])
    impact = trajectory.ledger.impact
    assert impact[k - 1] < -1.0
    assert np.count_nonzero(impact) == 1
    feet = _foot(trajectory, robot)
    assert np.abs(feet[k:] - feet[k]).max() < 1e-13  # held to round-off
    assert abs(trajectory.contacts["foot"].gap[k]) < 1e-14
    assert np.abs(trajectory.ledger.defect).max() < 1e-9  # of 400 J
    # between impacts nothing is gained or lost but the scheme's own, which oscillates: 2 % of it
    assert np.ptp(trajectory.energy[k:]) < 400.0 * (0.02 * time_step / 0.0025) ** 2


def _foot(trajectory, robot):
    contact = robot.contacts[0]
    quats = trajectory.quat_WB_xyzw[:, contact.body]
    rotations = np.array([pin.Quaternion(quat).matrix() for quat in quats])
    return trajectory.p_WB[:, contact.body] + rotations @ contact.p_BC


def test_plastic_impact_loses_what_gauss_says():
    """The kinetic energy lost is that of the velocity change: v+ is the projection of v-."""
    sim = vc.Simulator(JUMPER, 0.005, contact=vc.PlasticContact(), joint_limits=False)
    sim.reset(*bent(JUMPER, 0.1))
    trajectory = sim.run(0.2)
    [(time, _)] = trajectory.impacts
    k = int(np.flatnonzero(trajectory.time == time)[0])
    q, after = trajectory.q[k], trajectory.v[k]
    model, data = JUMPER.model, JUMPER.data
    M = pin.crba(model, data, q).copy()
    M = np.triu(M) + np.triu(M, 1).T
    pin.computeJointJacobians(model, data, q)
    J = pin.getJointJacobian(model, data, 3, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    lever = data.oMi[3].rotation @ np.array([0.0, 0.0, -0.432])
    rows = J[:3] - pin.skew(lever) @ J[3:]
    assert np.abs(rows @ after).max() < 1e-12
    lost = -trajectory.ledger.impact[k - 1]
    # v- from the momentum balance: M (v+ - v-) is in the range of the rows
    impulse = np.linalg.lstsq(rows @ np.linalg.solve(M, rows.T), np.eye(3), rcond=None)[0]
    speed = _foot_speed_before(trajectory, k)
    assert lost == pytest.approx(0.5 * speed @ impulse @ speed, rel=0.02)  # speed from positions


def _foot_speed_before(trajectory, k):
    feet, t = _foot(trajectory, JUMPER)[k - 2 : k + 1], trajectory.time[k - 2 : k + 1]
    fit = np.polyfit(t - t[-1], feet, 2)
    return fit[1]


def test_several_feet_stand_and_one_lifts(tmp_path):
    """A beam on two feet: lifted at one end it stands on the other, about which it turns."""
    path = tmp_path / "beam.urdf"
    path.write_text(
        '<robot name="beam"><link name="beam"><inertial><mass value="2"/><inertia ixx="0.01" '
        'ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/></inertial></link><vi_contact>'
        '<base type="free"/><contact name="left" link="beam" xyz="-0.5 0 0" radius="0"/>'
        '<contact name="right" link="beam" xyz="0.5 0 0" radius="0"/></vi_contact></robot>'
    )
    robot = vc.load_robot(path)
    sim = vc.Simulator(robot, 0.01, contact=vc.PlasticContact())
    sim.reset(robot.on_ground(robot.neutral()))
    for _ in range(20):
        sim.step()
    assert np.abs(sim.state.v).max() < 1e-12
    # a couple of 2 m g l pulls the right end up: half of it is needed
    for _ in range(20):
        sim.step(wrenches={"beam": [0, 0, 0, 0, -2.0 * 9.81, 0]})
    gaps = {c.name: _height(sim.state, c) for c in robot.contacts}
    assert abs(gaps["left"]) < 1e-13
    assert gaps["right"] > 0.05


def test_quadruped_lands_on_its_feet_without_a_pull():
    robot = vc.load_robot(example("anymal.urdf"))
    q = robot.neutral()
    for joint in robot.joints:
        side = 1.0 if joint.name[:2] in ("LF", "RF") else -1.0
        bend = {"HFE": 0.4, "KFE": -0.8}.get(joint.name[-3:], 0.0)
        if bend:
            q[joint.idx_q] = bend * side
    stance = [q[next(j.idx_q for j in robot.joints if j.idx_v == d)] for d in robot.actuated_dofs]
    q = robot.on_ground(q)
    q[2] += 0.1
    q[3:7] = [np.sin(0.025), 0.0, 0.0, np.cos(0.025)]  # two feet land before the other two
    sim = vc.Simulator(robot, 0.005, contact=vc.PlasticContact())
    sim.reset(q)
    trajectory = sim.run(0.5, vc.JointCommand(q=stance, kp=100.0, kd=3.0))
    feet = {"LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"}
    assert {name for _, name in trajectory.impacts} == feet
    assert {what.kind for what in trajectory.occurrences} == {"impact"}
    for name in feet:
        contact = trajectory.contacts[name]
        assert contact.force[:, 2].min() >= 0.0
        assert np.abs(contact.gap[-20:]).max() < 1e-12  # it stands
    assert (trajectory.ledger.impact <= 0.0).all()
    assert np.abs(trajectory.ledger.defect).max() < 1e-9  # of 170 J


def test_a_contact_that_dips_below_the_ground_within_a_step_is_seen_at_events():
    """A foot may be above the ground where the step would end, but not where an event cuts it."""
    robot = vc.load_robot(example("anymal.urdf"))
    rng = np.random.default_rng(0)
    q = robot.neutral()
    quat = rng.normal(size=4)
    q[3:7] = quat / np.linalg.norm(quat)
    q[0] = rng.choice([0.0, 30.0])
    q = robot.on_ground(q)
    q[2] += 0.2 * rng.random()
    sim = vc.Simulator(robot, 0.01, contact=vc.ElasticContact())
    sim.reset(q, 0.5 * rng.normal(size=robot.nv))
    trajectory = sim.run(0.5)
    assert min(contact.gap.min() for contact in trajectory.contacts.values()) > -1e-9


def _height(state, contact):
    R = pin.Quaternion(state.quat_WB_xyzw[contact.body]).matrix()
    return (state.p_WB[contact.body] + R @ contact.p_BC)[2]


@pytest.mark.parametrize("time_step", [0.01, 0.0025])
def test_a_foot_that_would_have_to_pull_slips_and_then_lifts(time_step):
    """The knee pushes off: the leg's own inertia drags the foot along before it leaves."""
    sim = vc.Simulator(JUMPER, time_step, contact=vc.PlasticContact())
    q = JUMPER.neutral()
    q[1:5] = pin.Quaternion(pin.rpy.rpyToMatrix(0.0, -0.7, 0.0)).coeffs()
    q[5] = np.arcsin(0.45 * np.sin(0.7) / 0.432) + 0.7  # the foot is below the hip
    sim.reset(JUMPER.on_ground(q))
    trajectory = sim.run(0.17, lambda state: [0.0, 0.0, 0.0, 0.0, -260.0])
    foot = trajectory.contacts["foot"]
    assert foot.force[:, 2].min() > -1e-6 * WEIGHT
    assert foot.gap.min() > -1e-13
    assert foot.sliding.any()
    slips = np.flatnonzero(foot.sliding)
    assert np.abs(foot.force[slips, :2]).max() < 1e-9  # no friction
    kinds = [what.kind for what in trajectory.occurrences]
    assert kinds[:3] == ["release", "impact", "release"]
    assert foot.gap[-1] > 1e-3
    assert np.abs(trajectory.ledger.defect).max() < 1e-9  # of 400 J


# ------------------------------------------------------------ plastic: from foot to foot
SPOKES, SPOKE, SLOPE = 8, 0.5, 0.12
HALF_ANGLE = np.pi / SPOKES
RIM_INERTIA = 0.05 + 2.0 * SPOKE**2  # of 2 kg about a foot


def wheel_text(kind):
    """A rimless wheel of 2 kg and 0.05 kg m^2 that rolls about y.

    "loop": two halves, pinned at the hub and by a loop; "sprung": a driven pendulum on a spring.
    """
    angles = 2.0 * HALF_ANGLE * np.arange(SPOKES)
    feet = "".join(
        f'<contact name="{k}" link="wheel" xyz="{x} 0 {z}" radius="0"/>'
        for k, (x, z) in enumerate(
            zip(SPOKE * np.sin(angles), -SPOKE * np.cos(angles), strict=True)
        )
    )
    part = (
        '<link name="{}"><inertial><mass value="{}"/><inertia ixx="{}" ixy="0" ixz="0" iyy="{}" '
        'iyz="0" izz="{}"/></inertial></link>'
    )
    joint = (
        '<joint name="hub" type="continuous"><parent link="wheel"/><child link="other"/>'
        '<axis xyz="0 1 0"/>{}</joint>'
    )
    if kind == "plain":
        links = part.format("wheel", 2.0, 0.026, 0.05, 0.026)
    elif kind == "loop":
        links = "".join(part.format(name, 1.0, 0.013, 0.025, 0.013) for name in ("wheel", "other"))
        links += joint.format("")
        feet += (
            '<loop_joint name="pin" type="revolute"><link1 link="wheel" xyz="0.3 0 0.1"/>'
            '<link2 link="other" xyz="0.3 0 0.1"/><axis xyz="0 1 0"/></loop_joint>'
        )
    else:
        links = part.format("wheel", 2.0, 0.026, 0.05, 0.026)
        links += part.format("other", 0.3, 0.002, 0.002, 0.002).replace(
            "<inertial>", '<inertial><origin xyz="0.1 0 0"/>'
        )
        links += joint.format('<dynamics damping="0.02"/>')
        feet += (
            '<spring name="leaf" stiffness="40" rest_length="0.15"><link1 link="wheel" '
            'xyz="0 0 0.2"/><link2 link="other" xyz="0.15 0 0"/></spring>'
        )
    return (
        f'<robot name="rimless">{links}<vi_contact><base type="free"/>{feet}</vi_contact></robot>'
    )


def roll(folder, kind, time_step, duration):
    path = folder / "wheel.urdf"
    path.write_text(wheel_text(kind))
    robot = vc.load_robot(path)
    down = [9.81 * np.sin(SLOPE), 0.0, -9.81 * np.cos(SLOPE)]
    sim = vc.Simulator(robot, time_step, down, contact=vc.PlasticContact())
    q, v = robot.neutral(), np.zeros(robot.nv)
    q[2], v[0], v[4] = SPOKE, 1.6 * SPOKE, 1.6  # about the lowest foot
    sim.reset(q, v)
    return sim.run(duration, lambda state: [0.3] if robot.nu else [])


def rolled(count):
    """Times of the first impacts of the continuous wheel, to 1e-12 s."""

    def motion(_, y):
        return [y[1], 2.0 * 9.81 * SPOKE * np.sin(y[0] + SLOPE) / RIM_INERTIA]

    def impact(_, y):
        return y[0] - HALF_ANGLE

    impact.terminal, impact.direction = True, 1
    kept = (0.05 + 2.0 * SPOKE**2 * np.cos(2.0 * HALF_ANGLE)) / RIM_INERTIA
    time, y, times = 0.0, np.array([0.0, 1.6]), []
    for _ in range(count):
        result = solve_ivp(
            motion, (time, time + 5.0), y, "DOP853", rtol=1e-13, atol=1e-14, events=impact
        )
        time, y = result.t[-1], np.array([-HALF_ANGLE, kept * result.y[1, -1]])
        times.append(time)
    return np.array(times)


@pytest.mark.parametrize("kind", ["plain", "loop"])
def test_rimless_wheel_rolls_from_foot_to_foot_at_second_order(tmp_path, kind):
    """Every landing is off by h^2, not only the first: no support is lost where feet change."""
    expected = rolled(10)
    errors = []
    for time_step in (0.01, 0.005, 0.0025):
        trajectory = roll(tmp_path, kind, time_step, 4.1)
        times = [time for time, _ in trajectory.impacts]
        errors.append(np.abs(times[:10] - expected))
        feet = [(what.kind, what.name) for what in trajectory.occurrences[:4]]
        assert feet == [("impact", "1"), ("release", "0"), ("impact", "2"), ("release", "1")]
        impact = trajectory.ledger.impact
        assert impact.max() <= 0.0
        assert np.count_nonzero(impact) == len(times)  # the release is part of the impact
        # the scheme's own error: 0.3 J per step at h = 1 s, of 20 J
        assert np.abs(trajectory.ledger.integration).max() < 30.0 * time_step**2
        assert np.abs(trajectory.ledger.defect).max() < 1e-11  # of 20 J, round-off
    assert errors[0].max() < 0.6e-3  # of 4 s; 2.5 h^2 for each change of feet at most
    slopes = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert slopes.min() > 1.9
    assert slopes.max() < 2.1


def test_springs_and_motors_change_feet_at_second_order_too(tmp_path):
    """Against itself: differences between steps h, h/2, h/4, h/8 fall by four."""
    runs = [roll(tmp_path, "sprung", h, 2.6).impacts[:6] for h in (0.008, 0.004, 0.002, 0.001)]
    assert [name for _, name in runs[0]] == [name for _, name in runs[-1]] == list("123456")
    differences = np.diff([[time for time, _ in run] for run in runs], axis=0)
    slopes = np.log2(np.abs(differences[:-1] / differences[1:]))
    assert slopes.min() > 1.9
    assert slopes.max() < 2.1


WIDTH, HEIGHT, BLOCK_MASS = 0.2, 0.8, 3.0
CRITICAL = np.arctan2(WIDTH, HEIGHT)


def rock(folder, depth, time_step, duration):
    """A block on two edges (of depth zero: two points), let go at 0.6 of its critical angle."""
    own = BLOCK_MASS * (WIDTH**2 + HEIGHT**2) / 12.0
    corners = [(x, y) for x in (-0.5 * WIDTH, 0.5 * WIDTH) for y in sorted({-depth, depth})]
    feet = "".join(
        f'<contact name="{k}" link="block" xyz="{x} {y} {-0.5 * HEIGHT}" radius="0"/>'
        for k, (x, y) in enumerate(corners)
    )
    path = folder / "block.urdf"
    path.write_text(
        f'<robot name="block"><link name="block"><inertial><mass value="{BLOCK_MASS}"/><inertia '
        f'ixx="{own}" ixy="0" ixz="0" iyy="{own}" iyz="0" izz="0.03"/></inertial></link>'
        f'<vi_contact><base type="free"/>{feet}</vi_contact></robot>'
    )
    robot = vc.load_robot(path)
    sim = vc.Simulator(robot, time_step, contact=vc.PlasticContact())
    q = robot.neutral()
    q[3:7] = [0.0, np.sin(0.3 * CRITICAL), 0.0, np.cos(0.3 * CRITICAL)]
    sim.reset(robot.on_ground(q))
    return sim.run(duration)


def housner(count):
    """Tops after each impact, of the critical angle: the rate keeps 1 - 3/2 sin^2 of it."""
    kept, tops, top = 1.0 - 1.5 * np.sin(CRITICAL) ** 2, [], 0.6
    for _ in range(count):
        depth = np.cos(CRITICAL * (1.0 - top)) - np.cos(CRITICAL)
        top = 1.0 - np.arccos(np.cos(CRITICAL) + kept**2 * depth) / CRITICAL
        tops.append(top)
    return np.array(tops)


def tops_of(trajectory):
    angle = 2.0 * np.arctan2(trajectory.q[:, 4], trajectory.q[:, 6]) / CRITICAL
    cuts = np.searchsorted(trajectory.time, sorted({time for time, _ in trajectory.impacts}))
    return np.array([np.abs(part).max() for part in np.split(angle, cuts)[1:]])


@pytest.mark.parametrize("time_step", [0.01, 0.005, 0.001])
@pytest.mark.parametrize("depth", [0.0, 0.15])
def test_rocking_block_keeps_what_housner_says(tmp_path, time_step, depth):
    """Also on edges, where two corners hold together and are let go together."""
    trajectory = rock(tmp_path, depth, time_step, 2.0)
    expected = housner(3)
    assert expected[[0, 2]] == pytest.approx([0.451, 0.281], abs=5e-4)  # known figures
    # a top may lie between two nodes: by 2 rad/s^2 h^2 / 8, of 0.24 rad; the rest is the scheme's
    np.testing.assert_allclose(tops_of(trajectory)[:3], expected, atol=2e-4 + 2.0 * time_step**2)
    assert np.abs(trajectory.ledger.defect).max() < 1e-11  # of 12 J
    assert np.abs(trajectory.q[:, 1]).max() < 1e-12  # it does not walk sideways
    for contact in trajectory.contacts.values():
        assert contact.force[:, 2].min() >= 0.0
        assert contact.gap.min() > -1e-12


def test_rocking_block_comes_to_rest(tmp_path):
    """Infinitely many impacts in theory: it stands once one takes no more than its weight gives."""
    trajectory = rock(tmp_path, 0.0, 0.01, 6.0)
    assert 20 < len(trajectory.impacts) < 60
    assert np.abs(trajectory.v[-20:]).max() < 1e-12
    total = trajectory.contacts.total_force[-20:, 2]
    # multipliers balance forces to the step's tolerance, 1e-10 N s over 10 ms
    np.testing.assert_allclose(total, BLOCK_MASS * 9.81, atol=1e-7)


# ------------------------------------------------------------ elastic
def bouncing(robot, time_step, duration, start, balance="node", **options):
    sim = vc.Simulator(robot, time_step, contact=vc.ElasticContact(balance), **options)
    sim.reset(*start)
    return sim.run(duration)


def published_drop():
    """Straight leg, the calf's centre of mass at 0.5 m, at rest."""
    q = JUMPER.neutral()
    q[0] = 0.5 + 0.216 + 0.45
    return q, None


@pytest.mark.parametrize(("time_step", "bound"), [(0.01, 1.3e-3), (0.005, 1.3e-4)])
def test_upright_jumper_bounces_on_the_grid_with_bounded_energy(time_step, bound):
    """40 of the published 400 s; the demo has them all."""
    trajectory = bouncing(JUMPER, time_step, 40.0, published_drop(), "interval")
    fall = np.sqrt(2 * 0.284 / 9.81)
    assert len(trajectory.impacts) == 1 + int((40.0 - fall) / (2 * fall))
    assert np.abs(trajectory.energy / trajectory.energy[0] - 1.0).max() < bound
    assert not trajectory.q[:, 1:4].any() and not trajectory.q[:, 5].any()  # the leg stays straight
    assert trajectory.contacts["foot"].gap.min() > -1e-14
    # back on the time grid after every contact
    grid = trajectory.time / time_step
    assert np.count_nonzero(np.abs(grid - np.round(grid)) < 1e-7) >= round(40.0 / time_step)
    assert np.abs(trajectory.ledger.defect).max() < 1e-10  # of 470 J


def test_discrete_energy_is_the_same_before_and_after_a_contact():
    """Equation (10), from the nodes: a falling point of mass m, E = m v^2 / 2 + mean potential."""
    trajectory = bouncing(JUMPER, 0.01, 1.0, published_drop(), "interval")
    for time, _ in trajectory.impacts:
        k = int(np.flatnonzero(trajectory.time == time)[0])
        z, t = trajectory.q[k - 1 : k + 2, 0], trajectory.time[k - 1 : k + 2]
        speed = np.diff(z) / np.diff(t)
        discrete = 0.5 * speed**2 + 9.81 * 0.5 * (z[1:] + z[:-1])
        assert discrete[1] == pytest.approx(discrete[0], rel=1e-12)
        assert speed[0] < 0.0 < speed[1]


def test_balance_at_the_node_keeps_the_energy_of_a_fall_exactly():
    tight = vc.SolverOptions(momentum_tolerance=1e-13, velocity_tolerance=0.0)
    assert vc.ElasticContact() == vc.ElasticContact(balance="node")
    trajectory = bouncing(JUMPER, 0.01, 10.0, published_drop(), options=tight)
    assert len(trajectory.impacts) == 21
    assert np.abs(trajectory.energy / trajectory.energy[0] - 1.0).max() < 1e-12  # round-off


@pytest.mark.parametrize(
    "law", [vc.ElasticContact(), vc.ElasticContact("interval"), vc.PlasticContact()]
)
def test_contact_exactly_on_the_grid(law):
    """Whichever side of the node rounding puts it on, it is one contact, and it is booked."""
    for steps in range(8, 24):
        q = JUMPER.on_ground(JUMPER.neutral())
        q[0] += 0.5 * 9.81 * (0.01 * steps) ** 2
        sim = vc.Simulator(JUMPER, 0.01, contact=law)
        sim.reset(q)
        trajectory = sim.run(0.01 * steps + 0.05)
        [(time, _)] = trajectory.impacts
        assert time == pytest.approx(0.01 * steps, abs=1e-9)
        assert trajectory.contacts["foot"].gap.min() > -1e-12
        assert np.abs(trajectory.ledger.defect).max() < 1e-10
        lost = -trajectory.ledger.impact.sum()
        fall = JUMPER.mass * 9.81 * (q[0] - STRAIGHT_HEIGHT)
        elastic = isinstance(law, vc.ElasticContact)
        # elastic, between intervals: up to m g^2 h^2 / 8, see the documentation
        most = 0.05 if law == vc.ElasticContact("interval") else 1e-9
        assert lost == pytest.approx(0.0 if elastic else fall, abs=most)


@pytest.mark.parametrize("name", ["jumper", "jumper_free"])
def test_bent_and_spinning_jumper_bounces_a_hundred_times(name):
    """The leg folds and whips around, at 1 ms; its motion is chaotic, its invariants are not."""
    robot = vc.load_robot(name)
    sim = vc.Simulator(robot, 0.001, contact=vc.ElasticContact(), joint_limits=False)
    sim.reset(*bent(robot, 0.3))
    energy, spin, drift, impacts = [], [], [], 0
    while impacts < 100 and sim.state.time < 30.0:
        trajectory = sim.run(1.0)
        impacts += len(trajectory.impacts)
        energy.append(trajectory.energy)
        spin.append(_vertical_spin(trajectory, robot))
        drift.append(trajectory.linear_momentum[:, :2])
        assert trajectory.contacts["foot"].gap.min() > -1e-13
    assert impacts >= 100
    energy, spin, drift = (np.concatenate(parts) for parts in (energy, spin, drift))
    assert np.abs(energy / energy[0] - 1.0).max() < 0.02  # whipping at 50 rad/s, h w = 0.05
    # round-off of 20 000 steps
    assert np.abs(spin - spin[0]).max() < 1e-10
    if name == "jumper_free":  # the slide of the other takes horizontal momentum
        assert np.abs(drift - drift[0]).max() < 1e-10


def _vertical_spin(trajectory, robot):
    """Angular momentum about the vertical axis that nothing has a torque about.

    Of the free robot the one through its centre of mass; of the leg on the slide, through the hip.
    """
    if len(robot.base_dofs):
        return trajectory.angular_momentum[:, 2]
    total = np.zeros(len(trajectory.time))
    for i in (1, 2):
        body, quats = robot.bodies[i], trajectory.quat_WB_xyzw[:, i]
        R = np.array([pin.Quaternion(quat).matrix() for quat in quats])
        own = np.einsum("kij,jl,kl->ki", R, body.inertia, trajectory.w_WB_B[:, i])
        orbit = np.cross(trajectory.p_WB[:, i], body.mass * trajectory.v_WB[:, i])
        total += own[:, 2] + orbit[:, 2]
    return total


def test_two_feet_that_land_together_bounce_together(tmp_path):
    path = tmp_path / "beam.urdf"
    path.write_text(
        '<robot name="beam"><link name="beam"><inertial><mass value="2"/><inertia ixx="0.01" '
        'ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/></inertial></link><vi_contact>'
        '<base type="free"/><contact name="left" link="beam" xyz="-0.5 0 0" radius="0"/>'
        '<contact name="right" link="beam" xyz="0.5 0 0" radius="0"/></vi_contact></robot>'
    )
    robot = vc.load_robot(path)
    q = robot.on_ground(robot.neutral())
    q[2] += 0.5
    v = np.array([0.7, 0.0, 0.0, 0.0, 0.0, 0.0])
    trajectory = bouncing(robot, 0.01, 5.0, (q, v))
    assert len(trajectory.impacts) >= 12
    times = [time for time, _ in trajectory.impacts]
    assert times[::2] == times[1::2]
    assert np.abs(trajectory.linear_momentum[:, 0] - 1.4).max() < 1e-12  # tangential momentum
    assert np.abs(trajectory.q[:, 3:6]).max() < 1e-9  # level: the two impulses are equal
    # flight is exact, so the step's tolerance is left: 1e-10 N s at 3 m/s, of 10 J, 500 times
    assert np.abs(trajectory.energy / trajectory.energy[0] - 1.0).max() < 2e-8


def ball_thrown(folder):
    robot = sphere(folder)
    return robot, (robot.on_ground(robot.neutral()), [0.3, 0.0, 3.0, 1.0, 2.0, 3.0]), 10.0, {}


def box_tossed(folder):
    robot, q = box(folder), np.array([0.0, 0.0, 0.0, 0.3, 0.4, 0.5, np.sqrt(0.5)])
    return robot, (robot.on_ground(q), [0.2, 0.0, 3.0, 1.0, 2.0, 0.5]), 5.0, {}


def leg_whips(folder):
    return JUMPER, bent(JUMPER, 0.3), 2.0, {"joint_limits": False}


@pytest.mark.parametrize(
    ("scene", "time_step", "gain"),
    # a body in flight is followed exactly, a whipping leg is not
    [(ball_thrown, 0.01, 1e-3), (box_tossed, 0.005, 1e-3), (leg_whips, 0.001, 1.0)],
)
def test_the_default_balance_is_the_more_accurate_one(tmp_path, scene, time_step, gain):
    robot, start, duration, options = scene(tmp_path)
    errors = {}
    for balance in ("interval", "node"):
        trajectory = bouncing(robot, time_step, duration, start, balance, **options)
        assert len(trajectory.impacts) > 10
        relative = trajectory.energy / trajectory.energy[0] - 1.0
        errors[balance] = np.sqrt(np.mean(relative**2))
    assert errors["node"] < gain * errors["interval"]


def test_loops_bounce_too():
    """The five-bar leg on its rail, without limits and spring damping: energy stays."""
    robot = vc.load_robot("fly_hopper_rail").with_parts(springs=())
    q = robot.on_ground(robot.neutral())
    q[0] += 0.05
    trajectory = bouncing(robot, 0.001, 0.3, (q, None), joint_limits=False)
    assert len(trajectory.impacts) >= 1
    assert trajectory.constraint_error.max() < 1e-10
    assert np.abs(trajectory.ledger.defect).max() < 1e-9


def test_resting_on_elastic_ground_is_a_zeno_error_and_the_state_stands(tmp_path):
    sim = vc.Simulator(JUMPER, 0.01, contact=vc.ElasticContact())
    sim.reset(JUMPER.on_ground(JUMPER.neutral()))
    before = sim.state
    with pytest.raises(ZenoError, match="foot.*without end"):
        sim.step()
    assert sim.state is before
    with pytest.raises(ZenoError):
        sim.run(0.1)
    assert sim.state is before
    trajectory = sim.run(0.1, throw=False)
    assert trajectory.status is vc.Status.ZENO
    assert trajectory.time[-1] == sim.state.time == 0.0
    assert len(trajectory.impacts) > 100
    assert vc.Status.ZENO is _saved(trajectory, tmp_path).status


def _saved(trajectory, folder):
    trajectory.save(folder / "run.npz")
    return vc.Trajectory.load(folder / "run.npz")


def test_a_step_that_fails_with_events_ends_the_trajectory_before_it():
    """A torque that no step can follow: what was followed before it stays."""
    sim = vc.Simulator(JUMPER, 0.01, contact=vc.ElasticContact(), joint_limits=False)
    sim.reset(*bent(JUMPER, 0.05))

    def kick(state):
        return [0.0, 0.0, 0.0, 0.0, 1e7 if state.time > 0.155 else 0.0]

    sim.run(0.15)
    start = sim.snapshot()
    trajectory = sim.run(0.1, kick, throw=False)
    assert trajectory.status not in (vc.Status.CONVERGED, vc.Status.ZENO)
    assert trajectory.time[-1] == sim.state.time < 0.2
    assert len(trajectory) >= 1
    sim.restore(start)
    with pytest.raises(StepFailedError):
        sim.run(0.1, kick)


# ------------------------------------------------------------ the simulator around it
def test_steps_are_the_run_and_a_snapshot_repeats_bit_for_bit():
    sim = vc.Simulator(JUMPER, 0.01, contact=vc.PlasticContact(), joint_limits=False)
    sim.reset(*bent(JUMPER, 0.1))
    trajectory = sim.run(0.3)
    sim.reset(*bent(JUMPER, 0.1))
    for k in range(30):
        if k == 20:
            snapshot = sim.snapshot()
        sim.step()
    end = sim.state.q
    np.testing.assert_allclose(end, trajectory.q[-1], atol=1e-13)  # times are added up differently
    sim.restore(snapshot)
    for _ in range(10):
        sim.step()
    np.testing.assert_array_equal(sim.state.q, end)


def test_trajectory_with_events_survives_a_file(tmp_path):
    trajectory = lift_off(0.0075, "bisection")
    trajectory.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    assert loaded.occurrences == trajectory.occurrences
    assert loaded.impacts == trajectory.impacts == []
    np.testing.assert_array_equal(loaded.time, trajectory.time)


def test_a_viewer_watches_a_run_with_events(capsys):
    class Watcher:
        def __init__(self):
            self.times, self.touches, self.finished = [], [], None

        def start(self, sim):
            return 5

        def show(self, state, touches, points):
            self.times.append(state.time)
            self.touches.append(touches)

        def finish(self, trajectory):
            self.finished = trajectory

    sim = vc.Simulator(JUMPER, 0.01, contact=vc.PlasticContact())
    sim.reset(JUMPER.on_ground(JUMPER.neutral()))
    watcher = Watcher()
    trajectory = sim.run(0.2, viewer=watcher, progress=True)
    np.testing.assert_allclose(watcher.times, [0.05, 0.1, 0.15, 0.2])
    assert watcher.finished is trajectory
    step, contact, *force, sliding = watcher.touches[-1][0]
    assert (step, contact, sliding) == (19.0, 0.0, 0.0)
    np.testing.assert_allclose(force, [0.0, 0.0, WEIGHT], atol=1e-6)
    assert "100 % of 20 steps" in capsys.readouterr().err


def test_a_failed_step_with_events_is_not_saved_for_replay(tmp_path):
    sim = vc.Simulator(JUMPER, contact=vc.PlasticContact())
    with pytest.raises(OptionError, match="time stepping"):
        save_failure(sim, tmp_path / "step.npz")


def test_bad_laws_are_refused():
    with pytest.raises(ArgumentError, match="refinement is 'halving'"):
        vc.PlasticContact("halving")
    with pytest.raises(ArgumentError, match="max_refinements"):
        vc.PlasticContact(max_refinements=0)
    with pytest.raises(ArgumentError, match="balance is 'half'"):
        vc.ElasticContact("half")
    with pytest.raises(ArgumentError, match="contact is 'elastic'"):
        vc.Simulator(JUMPER, contact="elastic")
    plain, lawful = vc.Simulator(JUMPER), vc.Simulator(JUMPER, contact=vc.ElasticContact())
    with pytest.raises(vc.ViContactError, match="snapshot"):
        lawful.restore(plain.snapshot())
    with pytest.raises(vc.ViContactError, match="snapshot"):
        plain.restore(lawful.snapshot())
