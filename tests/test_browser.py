"""Pages in a real browser: headless Chromium, from files, with the network off.

Where there is no Chromium these tests are skipped, unless VI_CONTACT_BROWSER=required (as in CI).
"""

import io
import os
import shutil

import numpy as np
import pytest
from matplotlib import image
from pages import MARBLE, dropped_hopper, pile_on_a_table, robot_of_two_parts
from support import BUNDLED, example

import vi_contact as vc
from vi_contact.viewer.page import robot_page, save_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = [
    "--no-sandbox",  # containers run as root
    "--use-gl=angle",
    "--use-angle=swiftshader",  # 3D without a graphics card
    "--enable-unsafe-swiftshader",
]
WIDTHS = {390: 844, 1440: 900}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        reason = "no chromium on this machine (Debian: apt install chromium)"
        if os.environ.get("VI_CONTACT_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens an address at a width; afterwards, nothing must have been logged without logs=True."""
    contexts, messages = [], []

    def open_page(url, width=1440, offline=True, scheme="light", logs=False):
        context = browser.new_context(
            viewport={"width": width, "height": WIDTHS[width]},
            offline=offline,
            color_scheme=scheme,
            reduced_motion="reduce",  # the animation starts when it is told to
        )
        contexts.append(context)
        page = context.new_page()
        if not logs:
            page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(f"asks for {request.url}"))
        page.goto(url)
        page.wait_for_selector("body[data-state=ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    addresses = ("asks for file:", "asks for data:", "asks for http://127.0.0.1:")
    assert [message for message in messages if not message.startswith(addresses)] == []


@pytest.fixture(scope="module")
def drop():
    return dropped_hopper(0.3, 0.8)


@pytest.fixture(scope="module")
def report(drop, tmp_path_factory):
    file = drop.to_html(tmp_path_factory.mktemp("report") / "drop.html", collisions=True)
    return f"file://{file}"


def picture(page):
    """(rows, columns, 3) of the scene, as drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return image.imread(io.BytesIO(page.locator("#scene canvas").screenshot()))[..., :3]


def robot_box(page, nodes):
    """Rows and columns that the nodes cover, as fractions of the picture."""
    show = f"on => {{ for (const n of {nodes}) viContact.scene.node('robot', n).visible = on; "
    show += "viContact.scene.viewer.set_dirty(); }"
    with_robot = picture(page)
    page.evaluate(show, False)
    without = picture(page)
    page.evaluate(show, True)
    rows, columns = np.nonzero(np.abs(with_robot - without).max(axis=2) > 0.02)
    height, width = with_robot.shape[:2]
    return rows.min() / height, rows.max() / height, columns.min() / width, columns.max() / width


def positions(page):
    return np.array(page.evaluate("viContact.scene.bodies.map(b => b.position.toArray())"))


@pytest.mark.parametrize("name", BUNDLED)
def test_camera_frames_every_bundled_robot(name, open_page, tmp_path):
    file = save_page(tmp_path / "robot.html", robot_page(vc.load_robot(name)))
    page = open_page(f"file://{file}")
    top, bottom, left, right = robot_box(page, page.evaluate("viContact.data.bodies"))
    assert bottom - top > 0.5  # large
    assert top > 0.01 and bottom < 0.99 and left > 0.01 and right < 0.99  # and all of it there


@pytest.mark.parametrize("name", ["solo12.urdf", "talos_reduced.urdf"])
def test_a_quadruped_and_a_humanoid_with_their_meshes(name, open_page, tmp_path):
    robot = vc.load_robot(example(name), base="free")
    sim = vc.Simulator(robot, time_step=0.005)
    sim.reset(robot.on_ground(robot.neutral(), 0.02))
    trajectory = sim.run(0.1)
    file = trajectory.to_html(tmp_path / "run.html")
    assert file.stat().st_size < 10e6
    page = open_page(f"file://{file}")
    bodies = page.evaluate("viContact.data.bodies")
    np.testing.assert_allclose(positions(page), trajectory.p_WB[0], atol=1e-5)  # float32
    top, bottom, left, right = robot_box(page, bodies)
    assert bottom - top > 0.5 or right - left > 0.5  # a quadruped is longer than high
    assert top > 0.01 and bottom < 0.99 and left > 0.01 and right < 0.99
    page.evaluate("viContact.player.seek(viContact.player.duration)")
    np.testing.assert_allclose(positions(page), trajectory.p_WB[-1], atol=1e-5)


@pytest.mark.parametrize("width", WIDTHS)
def test_report_opens_offline_and_moves(width, open_page, report, drop):
    page = open_page(report, width)
    assert len(np.unique(picture(page).reshape(-1, 3), axis=0)) > 100  # not blank
    top, bottom, _, _ = robot_box(page, page.evaluate("viContact.data.bodies"))
    assert bottom - top > 0.2
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
    for time, node in ((0.0, 0), (0.2, 20), (0.8, 80)):
        page.evaluate("t => viContact.player.seek(t)", time)
        np.testing.assert_allclose(positions(page), drop.p_WB[node], atol=1e-5)  # float32
    box = page.locator(".plot svg").first.bounding_box()
    assert box["width"] > 0.75 * min(width, 600)


@pytest.mark.parametrize("width", WIDTHS)
def test_click_in_a_plot_moves_the_robot(width, open_page, report, drop):
    page = open_page(report, width)
    plot = page.locator(".plot svg").nth(2)
    plot.scroll_into_view_if_needed()
    left, span = page.evaluate(
        "(() => { const p = viContact.plots[2]; return [p.left, p.span] })()"
    )
    box = plot.bounding_box()

    def at(part):
        return box["x"] + left + part * span, box["y"] + 0.5 * box["height"]

    page.mouse.move(*at(0.25))
    page.mouse.down()
    np.testing.assert_allclose(positions(page)[0], drop.p_WB[20, 0], atol=1e-3)  # a pixel is 2 ms
    page.mouse.move(*at(0.5))
    np.testing.assert_allclose(positions(page)[0], drop.p_WB[40, 0], atol=1e-3)
    page.mouse.up()
    assert page.locator("#clock").inner_text().startswith("0.4")
    cursor = float(page.locator(".plot .cursor").first.get_attribute("x1"))
    other = page.evaluate("(() => { const p = viContact.plots[0]; return p.left + p.span / 2 })()")
    assert cursor == pytest.approx(other, abs=1.0)  # a pixel


WATCH_PICTURES = """(() => {
  const renderer = viContact.scene.viewer.renderer, render = renderer.render.bind(renderer);
  window.lag = 0;
  renderer.render = (...scene) => {
    window.lag = Math.max(window.lag, Math.abs(viContact.player.shown - viContact.player.time));
    render(...scene);
  };
})()"""


def test_playing_moves_robot_cursor_and_slider(open_page, report):
    page = open_page(report)
    start = positions(page)
    page.evaluate(WATCH_PICTURES)
    page.locator("#speed").select_option("0.1")
    page.locator("#play").click()
    page.wait_for_function("viContact.player.time > 0.02")
    page.locator("#play").click()
    time = page.evaluate("viContact.player.time")
    assert 0.02 < time < 0.8
    assert page.evaluate("lag") == 0  # forces and springs are of the same time as the bodies
    assert np.abs(positions(page) - start).max() > 1e-4
    assert float(page.locator("#slider").input_value()) == pytest.approx(time, abs=1e-6)


def test_meshcats_own_controls_move_the_plots(open_page, report):
    page = open_page(report)
    page.locator(".dg .close-button").last.click()
    scrubber = page.locator(".dg .cr.number", has=page.get_by_text("time", exact=True))
    scrubber.locator("input").fill("0.5")
    scrubber.locator("input").press("Enter")
    page.wait_for_function("document.getElementById('clock').textContent === '0.500 s'")
    x = float(page.locator(".plot .cursor").first.get_attribute("x1"))
    assert x == pytest.approx(page.evaluate("viContact.plots[0].x(0.5)"), abs=0.1)


def test_forces_springs_and_trail_follow_the_time(open_page, report, drop):
    page = open_page(report)
    force = drop.contacts["foot"].force
    landed = int(np.flatnonzero(force.any(axis=1))[0])
    arrow = "viContact.scene.arrows[0]"
    page.evaluate("t => viContact.player.seek(t)", 0.01 * (landed - 1) + 1e-4)
    assert not page.evaluate(f"{arrow}.visible")
    page.evaluate("t => viContact.player.seek(t)", 0.01 * landed + 1e-4)
    assert page.evaluate(f"{arrow}.visible")
    length = page.evaluate("viContact.scene.node('forces', '0', 'shaft').scale.z")
    scale = page.evaluate("viContact.data.metresPerNewton")
    assert length == pytest.approx(scale * np.linalg.norm(force[landed]), rel=1e-4)  # float32
    spring = page.evaluate("viContact.scene.springs[0].scale.z")
    assert 0.2 < spring < 0.4  # as long as the leg allows
    assert page.evaluate("viContact.player.trail.geometry.drawRange.count") == landed + 1


def hidden(page, node):
    """The picture without a node below the scene's root."""
    show = f"on => {{ viContact.scene.node({node}).visible = on; "
    show += "viContact.scene.viewer.set_dirty(); }"
    page.evaluate(show, False)
    without = picture(page)
    page.evaluate(show, True)
    return without


def pixel(page, point):
    """Row and column of a point in the picture."""
    x, y, z = point
    project = "p => viContact.scene.viewer.camera.position.clone().fromArray(p)"
    project += ".project(viContact.scene.viewer.camera).toArray()"
    right, up, _ = page.evaluate(project, [x, z, -y])  # meshcat's camera lives in axes with y up
    box = page.locator("#scene canvas").bounding_box()
    return 0.5 * (1.0 - up) * box["height"], 0.5 * (1.0 + right) * box["width"]


def check_pile(page):
    whole = picture(page)

    def pixels(*node):
        without = hidden(page, repr(node)[1:-1])
        return np.nonzero(np.abs(whole - without).max(axis=2) > 0.02)

    rows, columns = pixels("obstacles", "1 marble")
    assert len(rows) > 500  # and round, so that its middle is that of its pixels
    np.testing.assert_allclose([rows.mean(), columns.mean()], pixel(page, MARBLE), atol=4.0)
    rows, columns = pixels("obstacles", "0 table")
    farthest = min(pixel(page, (x, y, 0.5))[0] for x in (-0.5, 0.5) for y in (-0.5, 0.5))
    assert len(rows) > 10_000 and rows.min() > farthest - 2.0  # below its far corner; its edge
    rows, columns = pixels("forces")
    red, green, blue = whole[rows, columns].mean(axis=0)
    assert len(rows) > 300 and green > 1.5 * red and green > 1.5 * blue
    # the ball's weight: arrows up and down from where it touches, in front of it and of the box
    height, column = pixel(page, (0.05, 0.0, 0.7))
    near = np.abs(columns - column) < 10
    assert rows[near].min() < height - 20 and rows[near].max() > height + 20


def test_obstacles_and_forces_of_links(open_page, tmp_path):
    sim = pile_on_a_table(tmp_path)
    file = sim.run(0.1).to_html(tmp_path / "pile.html")
    page = open_page(f"file://{file}")
    page.evaluate("viContact.player.seek(0.05)")
    check_pile(page)
    with vc.view(sim.robot, open_browser=False) as view:
        page = open_page(view.url, offline=False)
        sim.run(0.1, viewer=view)
        page.wait_for_function("document.getElementById('clock').textContent === '0.200 s'")
        check_pile(page)


def test_mesh_with_a_texture_on_one_part_only(open_page, tmp_path):
    robot = robot_of_two_parts(tmp_path, "TEXCOORD")
    page = open_page(f"file://{save_page(tmp_path / 'robot.html', robot_page(robot))}", logs=True)
    assert page.locator("#notice").is_hidden()
    mesh = "viContact.scene.node('robot', '0 base', 'visual', '0 base_0', '<object>').geometry"
    y = np.array(page.evaluate(f"Array.from({mesh}.attributes.position.array)")).reshape(-1, 3)[
        :, 1
    ]
    np.testing.assert_allclose(np.sort(y), [-1.0] * 3 + [1.0] * 3)
    uv = np.array(page.evaluate(f"Array.from({mesh}.attributes.uv.array)")).reshape(-1, 2)
    np.testing.assert_array_equal(uv[y < 0.0], 0.0)
    np.testing.assert_array_equal(uv[y > 0.0], 0.5)


def test_mesh_that_cannot_be_drawn_leaves_the_others(open_page, tmp_path):
    robot = robot_of_two_parts(tmp_path, "COLOR")
    page = open_page(f"file://{save_page(tmp_path / 'robot.html', robot_page(robot))}", logs=True)
    assert "Meshes that cannot be drawn: 1" in page.locator("#notice").inner_text()
    top, bottom, left, right = robot_box(page, ["0 base"])
    assert 0.05 < bottom - top < 0.5 and 0.05 < right - left < 0.5  # the box above it


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_say_which_meshes_are_missing(width, open_page, tmp_path):
    """A quadruped moved away from its package: still, report, and live."""
    file = tmp_path / "go2.urdf"
    file.write_text(example("go2.urdf").read_text())
    robot = vc.load_robot(file, contacts="none")
    sim = vc.Simulator(robot, ground=None)
    with vc.view(robot, open_browser=False) as view:
        run = sim.run(0.05)
        still = f"file://{save_page(tmp_path / 'robot.html', robot_page(robot))}"
        report = f"file://{run.to_html(tmp_path / 'run.html')}"
        for page in (
            open_page(still, width),
            open_page(report, width),
            open_page(view.url, width, offline=False),
        ):
            note = page.locator("#notice")
            words = note.inner_text()
            count = len(robot.missing_meshes)  # collision shapes would have stood in
            assert f"{count} meshes were not found" in words and "package_dirs" in words
            assert "package://" in words
            inside, frame = note.bounding_box(), page.locator("#frame").bounding_box()
            assert inside["height"] < 0.5 * frame["height"]  # the robot is to be seen
            assert inside["y"] + inside["height"] <= frame["y"] + frame["height"] + 0.5


def test_light_and_dark(open_page, report):
    light, dark = (open_page(report, scheme=scheme) for scheme in ("light", "dark"))
    sky = np.s_[5:20, 20:200]
    assert picture(light)[sky].mean() > 0.7
    assert picture(dark)[sky].mean() < 0.3
    dark.locator("#theme").click()
    assert picture(dark)[sky].mean() > 0.7


def test_collision_shapes_on_demand(open_page, report):
    page = open_page(report)
    before = picture(page)
    page.locator("#collisions input").check()
    assert np.abs(picture(page) - before).max() > 0.1


def test_view_shows_a_run_in_real_time(open_page, drop):
    robot = drop.robot
    sim = vc.Simulator(robot, time_step=0.001)
    with vc.view(robot, open_browser=False) as view:
        page = open_page(view.url, offline=False)
        page.wait_for_function("document.getElementById('clock').textContent === '0.000 s'")
        start = positions(page)
        trajectory = sim.run(0.5, vc.JointCommand(q=[0.3, 0.3], kp=300.0, kd=5.0), viewer=view)
        assert trajectory.wall_time == pytest.approx(0.5, abs=0.2)  # a busy machine may be late
        page.wait_for_function("document.getElementById('clock').textContent === '0.500 s'")
        np.testing.assert_allclose(positions(page), trajectory.p_WB[-1], atol=1e-5)  # float32
        assert np.abs(positions(page) - start).max() > 0.01
        assert page.evaluate("viContact.scene.arrows[0].visible")


def test_view_of_a_recording_turns_into_its_report(open_page, drop):
    robot = drop.robot
    sim = vc.Simulator(robot)
    with vc.view(robot, open_browser=False, realtime=False) as view:
        page = open_page(view.url, offline=False)
        page.wait_for_function("document.body.className === 'live'")
        trajectory = sim.run(5.0, viewer=view)
        assert trajectory.wall_time < 2.0
        page.wait_for_function("document.body.className === 'report'")


def test_browser_without_3d_shows_the_plots(browser, report):
    """Flags are the whole browser's: one of its own."""
    with_3d_off = browser.browser_type.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", "--disable-3d-apis"]
    )
    page = with_3d_off.new_page()
    page.goto(report)
    page.wait_for_selector("body[data-state=ready]")
    assert "cannot draw in 3D" in page.locator("#notice").inner_text()
    page.evaluate("viContact.player.seek(0.4)")
    assert page.locator("#clock").inner_text() == "0.400 s"
    with_3d_off.close()
