"""The view, without a browser; tests/test_browser.py looks at its pages."""

import json
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
from pages import MARBLE, pile_on_a_table, unpack
from shapes import G

import vi_contact as vc


@pytest.fixture(scope="module")
def robot():
    return vc.load_robot("fly_hopper_rail")


def view(subject, **options):
    return vc.view(subject, open_browser=False, **options)


def test_view_can_be_closed_and_leaves_nothing_behind(robot):
    threads = threading.active_count()
    shown = view(vc.Simulator(robot).run(0.1))
    with urllib.request.urlopen(shown.url) as answer:
        assert b"MeshCat" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{shown.url}secret")
    shown.close()
    shown.close()  # twice does no harm
    assert shown.closed
    assert "closed" in repr(shown)
    with pytest.raises(OSError):
        urllib.request.urlopen(shown.url)
    deadline = time.monotonic() + 5.0  # the threads that answered end by themselves
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == threads


def test_program_that_forgets_its_view_ends():
    program = "import vi_contact as vc; print(vc.view(vc.load_robot('walker'), open_browser=False))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert "http://127.0.0.1:" in done.stdout
    assert done.stderr == ""


def test_without_a_screen_the_address_is_said(robot, monkeypatch, caplog):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with vc.view(robot) as shown:
        assert f"open {shown.url} by hand" in caplog.text
    caplog.clear()
    view(robot).close()
    assert caplog.text == ""


def test_pages_are_made_with_warnings_as_errors(tmp_path):
    program = (
        "import vi_contact as vc; "
        "vc.Simulator(vc.load_robot('walker'), ground=None).run(0.1).to_html('run.html')"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stderr == ""
    assert (tmp_path / "run.html").exists()


def test_run_is_shown_in_real_time(robot):
    with view(robot) as shown:
        sim = vc.Simulator(robot, time_step=0.002)
        start = time.monotonic()
        sim.run(0.3, viewer=shown)
        assert 0.3 <= time.monotonic() - start < 1.0  # a busy machine may be late


def test_motion_is_the_same_with_and_without_a_view(robot):
    plain = vc.Simulator(robot).run(0.3)
    for realtime in (True, False):
        with view(robot, realtime=realtime) as shown:
            watched = vc.Simulator(robot).run(0.3, viewer=shown)
        assert np.array_equal(plain.q, watched.q)


def test_obstacles_and_forces_of_links_are_shown(tmp_path):
    sim = pile_on_a_table(tmp_path)
    with view(sim.robot) as shown:
        before = unpack(shown.page())
        sim.run(0.1, viewer=shown)
        page, picture = unpack(shown.page()), json.loads(shown._picture)
        assert shown._edition == 2
        sim.run(0.1, viewer=shown)
        assert shown._edition == 2  # the same obstacles: no page anew
    assert [command["path"] for command in before["commands"] if "obst" in command["path"]] == []
    placed = {c["path"]: c["matrix"] for c in page["commands"] if c["type"] == "set_transform"}
    assert placed["/meshcat/obstacles/0 table/0"][12:15] == [0.0, 0.0, 0.25]
    assert placed["/meshcat/obstacles/1 marble/0"][12:15] == list(MARBLE)
    touches = np.array(picture["touches"]).reshape(-1, 6)
    # four corners on the table, and the ball and the box push each other
    assert len(touches) == 6 <= page["arrows"]
    ball = touches[touches[:, 2] > 0.6]
    np.testing.assert_allclose(ball[:, :3], [[0.05, 0.0, 0.7]] * 2, atol=1e-9)
    np.testing.assert_allclose(np.sort(ball[:, 5]), [-2 * G, 2 * G], rtol=1e-6)
    np.testing.assert_allclose(touches[:, 5].sum(), 3 * G, rtol=1e-6)


def test_page_that_was_changed_while_it_opened_is_loaded_again(tmp_path):
    sim = pile_on_a_table(tmp_path)
    with view(sim.robot) as shown:
        old = unpack(shown.page())["edition"]
        sim.run(0.1, viewer=shown)  # before the page listens
        new = unpack(shown.page())["edition"]
        for edition, expected in ((old, b'data: {"reload": true}'), (new, b'data: {"time": 0.1')):
            with urllib.request.urlopen(f"{shown.url}stream/{edition}") as stream:
                assert stream.readline().startswith(expected)


def test_recording_slows_a_run_by_less_than_a_fifth(robot):
    """Processor time of this thread, the best of several in turn: other programs do not count."""
    costs = {None: [], view(robot, realtime=False): []}
    for _ in range(7):
        for viewer, cost in costs.items():
            sim = vc.Simulator(robot, time_step=0.001)
            start = time.thread_time()
            sim.run(2.0, lambda state: [0.0, 0.0], viewer=viewer)
            cost.append(time.thread_time() - start)
    without, recording = (min(cost) for cost in costs.values())
    assert recording < 1.2 * without
    for viewer in filter(None, costs):
        viewer.close()


def test_what_cannot_be_shown(robot):
    with pytest.raises(vc.errors.ArgumentError, match=r"a vc.Robot or a vc.Trajectory"):
        vc.view("robot.urdf")
    sim = vc.Simulator(robot)
    shown = view(vc.load_robot("walker"))
    with pytest.raises(vc.errors.ViewError, match="view is of robot 'walker'"):
        sim.run(0.1, viewer=shown)
    with pytest.raises(vc.errors.ViewError, match="cannot serve at port"):
        view(robot, port=int(shown.url.split(":")[-1].strip("/")))
    shown.close()
    with pytest.raises(vc.errors.ViewError, match="is closed"):
        shown.place(vc.load_robot("walker").neutral())
    with view(sim.run(0.1)) as of_run, pytest.raises(vc.errors.ViewError, match="of a trajectory"):
        sim.run(0.1, viewer=of_run)
    assert sim.state.time == pytest.approx(0.1)  # what could not be shown was not run
