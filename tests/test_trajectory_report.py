"""Reports and plots of trajectories, as data; tests/test_browser.py looks at them in a browser."""

import html
import shutil
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from pages import dropped_hopper, pile_on_a_table, unpack
from shapes import G
from urdf_text import pair, write

import vi_contact as vc
from vi_contact.viewer import forces, report


@pytest.fixture(scope="module")
def drop():
    return dropped_hopper(0.1, 0.6)


def curves(data, title):
    [panel] = [panel for panel in data["panels"] if panel["title"].startswith(title)]
    return {series["name"]: series for series in panel["series"]}


def test_report_shows_the_trajectory(drop, tmp_path):
    file = drop.to_html(tmp_path / "drop.html")
    assert file.stat().st_size < 10e6
    data = unpack(file.read_text())
    frames = data["frames"]
    poses = frames["poses"].reshape(len(frames["time"]), -1, 7)
    # single precision in the page
    np.testing.assert_allclose(poses[..., :3], drop.p_WB, atol=1e-6)
    np.testing.assert_allclose(frames["time"], drop.time, atol=1e-6)
    energy = curves(data, "Energy")
    np.testing.assert_allclose(energy["total"]["y"], drop.energy, rtol=1e-6, atol=1e-6)
    books = curves(data, "Where energy")
    total = sum(curve["y"][-1] for curve in books.values())
    # single precision of sums of up to 100 J
    assert total == pytest.approx(drop.energy[-1] - drop.energy[0], abs=1e-4)
    normal = curves(data, "Contact forces, normal")["foot"]
    np.testing.assert_allclose(normal["y"], drop.contacts["foot"].force[:, 2], rtol=1e-6)
    rows = {name: text for name, text, _ in data["summary"]}
    assert "60 steps of 0.01 s" in rows["time"]
    assert f"{drop.constraint_error.max():.1e}" in rows["open joints"]


def test_forces_stand_at_the_foot_while_it_touches(drop):
    data = report.report_data(drop, drop.robot, False)
    first, numbers = np.array(data["touches"]["first"]), data["touches"]["numbers"]
    force = drop.contacts["foot"].force
    touching = np.append(force.any(axis=1), False)  # no step follows the last node
    np.testing.assert_array_equal(np.diff(first) > 0, touching)
    np.testing.assert_allclose(numbers[:, 3:], force[touching[:-1]], rtol=1e-6)
    np.testing.assert_allclose(numbers[:, 2], 0.0, atol=0.04)  # on the ground, or just above


@pytest.fixture(scope="module")
def pile(tmp_path_factory):
    return pile_on_a_table(tmp_path_factory.mktemp("pile")).run(0.1)


def test_forces_of_links_stand_where_they_touch(pile):
    data = report.report_data(pile, pile.robot, False)
    first, numbers = data["touches"]["first"], data["touches"]["numbers"]
    assert np.diff(first).tolist() == [data["arrows"]] * 5 + [0]
    for a, b in pairwise(first[1:-1]):  # the first step has half of gravity, from a node's rest
        point, force = numbers[a:b, :3], numbers[a:b, 3:]
        # forces of the solver's tolerance over h, in single precision
        ball = np.abs(point - [0.05, 0.0, 0.7]).max(axis=1) < 1e-6
        np.testing.assert_allclose(np.sort(force[ball, 2]), [-2 * G, 2 * G], rtol=1e-5)
        np.testing.assert_allclose(point[~ball, 2], 0.5, atol=1e-6)
        np.testing.assert_allclose(force[~ball].sum(axis=0), [0.0, 0.0, 3 * G], atol=1e-4)
        assert len(force[~ball]) == 4
        assert np.abs(point[~ball, :2]).max() == pytest.approx(0.2)
    between = curves(data, "Contact forces between links")
    np.testing.assert_allclose(between["a/b"]["y"][1:], 2 * G, rtol=1e-6)
    np.testing.assert_allclose(between["a/table"]["y"][1:], 3 * G, rtol=1e-6)


def test_saved_run_shows_its_obstacles_and_forces(pile, tmp_path):
    pile.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    pages = [unpack(report.report_page(run, pile.robot)) for run in (pile, loaded)]
    for page in pages:
        [table] = [c for c in page["commands"] if c["path"] == "/meshcat/obstacles/0 table/0"][1:]
        assert table["matrix"][12:15] == [0.0, 0.0, 0.25]
    numbers = [page["touches"]["numbers"] for page in pages]
    assert len(numbers[0]) > 0
    np.testing.assert_array_equal(*numbers)


def test_split_steps_and_more_forces_than_can_be_shown():
    touches = np.array([[3.0, 0.0, 0, 0, 1, 0], [3.0, 0.0, 0, 0, 2, 1], [3.0, 1.0, 0, 0, 4, 0]])
    points = np.array([[1.0, 0, 0], [1.0, 0, 0], [2.0, 0, 0]])
    pushes = forces.pushes(touches, points, np.array([[0.0, 1.0]]), 1)
    expected = [[3, 1, 0, 0, 0, 0, 3], [3, 2, 0, 0, 0, 0, 4], [3, 2, 0, 0, 0, 0, -4]]
    np.testing.assert_array_equal(pushes, expected)
    many = np.column_stack([np.zeros((100, 5)), np.arange(100.0)])
    np.testing.assert_array_equal(forces.largest(many)[:, 5], np.arange(99, 35, -1))


def test_motor_envelope_holds_the_torques(drop):
    """tau within the dashed lines: kt i_max at rest, less at speed."""
    low, high = report.motor_limits(drop, drop.robot, 1)
    tau = drop.tau[:, 0]
    whole = drop.parts == 1  # a split step has several mean speeds
    slack = 1e-8  # round-off of q, times the 1000 Nm/rad of the back-EMF over a step
    assert np.all(tau[whole] <= high[whole] + slack)
    assert np.all(tau[whole] >= low[whole] - slack)
    assert high.max() == pytest.approx(1.73 * 30)


def test_long_runs_keep_peaks_and_stay_small(tmp_path):
    robot = vc.load_robot("jumper")
    sim = vc.Simulator(robot, time_step=0.001)
    q = sim.state.q.copy()
    q[0] += 0.3
    sim.reset(q)
    trajectory = sim.run(10.0)
    data = report.report_data(trajectory, robot, False)
    assert len(data["frames"]["time"]) <= report.MAX_FRAMES + 1
    for panel in data["panels"]:
        for series in panel["series"]:
            assert len(series["y"]) <= report.MAX_POINTS + 2
    assert curves(data, "Energy")["kinetic"]["y"].max() == np.float32(trajectory.kinetic.max())
    assert trajectory.to_html(tmp_path / "long.html").stat().st_size < 10e6


def test_events_leave_no_two_frames_at_one_time():
    robot = vc.load_robot("jumper")
    back = vc.Event(guard=lambda state: state.q[0] - 1.0, reset=lambda state: (state.q, -state.v))
    sim = vc.Simulator(robot, time_step=0.01, events=[back], ground=None)
    q = robot.neutral()
    q[0] = 1.1
    sim.reset(q)
    trajectory = sim.run(0.5)
    assert (np.diff(trajectory.time) == 0.0).any()
    time = report.report_data(trajectory, robot, False)["frames"]["time"]
    assert (np.diff(time) > 0.0).all()


def test_loaded_trajectory_finds_its_robot(drop, tmp_path):
    drop.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    assert loaded.robot is None
    assert report.robot_of(loaded).name == "fly_hopper_rail"
    assert loaded.to_html(tmp_path / "run.html").exists()


def test_trajectory_of_a_file_that_has_gone(tmp_path):
    source = vc.load_robot("walker").path
    file = Path(shutil.copy(source, tmp_path / "mine.urdf"))
    trajectory = vc.Simulator(vc.load_robot(file, base="fixed"), ground=None).run(0.05)
    trajectory.save(tmp_path / "run.npz")
    loaded = vc.Trajectory.load(tmp_path / "run.npz")
    assert len(report.robot_of(loaded).base_dofs) == 0  # as it was simulated
    file.unlink()
    with pytest.raises(vc.errors.TrajectoryRobotError, match="is not there"):
        loaded.to_html(tmp_path / "run.html")
    assert loaded.to_html(tmp_path / "run.html", robot=vc.load_robot(source, base="fixed")).exists()


def test_trajectory_of_another_robot(drop, tmp_path):
    with pytest.raises(vc.errors.TrajectoryRobotError, match="not of robot 'walker'"):
        drop.to_html(tmp_path / "run.html", robot=vc.load_robot("walker"))


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_plots_for_papers(drop, tmp_path, ending):
    assert drop.plot(tmp_path / f"run.{ending}").stat().st_size > 10_000


def test_files_that_cannot_be_written(drop, tmp_path):
    for save in (drop.to_html, drop.plot):
        with pytest.raises(vc.ViContactError, match="cannot write"):
            save(tmp_path / "no" / "run.png")
    with pytest.raises(vc.ViContactError, match="cannot write"):
        drop.plot(tmp_path / "run.xyz")


def test_endings_of_files(drop, tmp_path):
    assert drop.plot(tmp_path / "run") == tmp_path / "run.png"
    assert drop.to_html(tmp_path / "run") == tmp_path / "run.html"
    assert {file.name for file in tmp_path.iterdir()} == {"run.png", "run.html"}
    for ending in ("pdf", "png"):
        with pytest.raises(vc.ViContactError, match=r"is HTML, so name it run\.html"):
            drop.to_html(tmp_path / f"run.{ending}")
    assert len(list(tmp_path.iterdir())) == 2


def test_trajectory_without_steps(tmp_path):
    trajectory = vc.Simulator(vc.load_robot("walker"), ground=None).run(0.0)
    assert trajectory.to_html(tmp_path / "run.html").exists()
    with pytest.raises(vc.ViContactError, match="no steps"):
        trajectory.plot(tmp_path / "run.png")


@pytest.mark.parametrize(
    "name", ["${a}", "$x_{", "_hidden", "</script><b>&'", "{{DATA}}", "n" * 999]
)
def test_names_are_shown_as_they_are(tmp_path, name):
    """matplotlib reads mathematics between dollars, HTML tags; both are names here."""
    written = quoteattr(name)
    text = pair().replace('"test"', written).replace('"hinge"', written)
    trajectory = vc.Simulator(vc.load_robot(write(tmp_path, text)), ground=None).run(0.02)
    plot = trajectory.plot(tmp_path / "run.svg")
    assert plot.stat().st_size > 1000
    page = trajectory.to_html(tmp_path / "run.html").read_text()
    assert f"<title>{html.escape(name)} - vi_contact</title>" in page
    assert name in curves(unpack(page), "Joint angles")


@pytest.mark.parametrize("height", [1e39, 1e300])
def test_numbers_that_no_picture_holds(tmp_path, height):
    loaded = vc.load_robot(write(tmp_path, pair()))
    q = loaded.neutral()
    q[2] = height
    sim = vc.Simulator(loaded, ground=None)
    sim.reset(q)
    trajectory = sim.run(0.02)
    for write_it in (trajectory.plot, trajectory.to_html):
        with pytest.raises(vc.ViContactError, match="'test' has numbers up to .*1e\\+30"):
            write_it(tmp_path / "run")
