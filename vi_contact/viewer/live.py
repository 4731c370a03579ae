"""A window on a robot in the browser: live while it is simulated, or the report of a trajectory.

A thread of this process serves the page on this computer only and sends it pictures as server-sent
events, so nothing stays behind when the view is closed or the process ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time as clock
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import ArgumentError, ViewError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.pairs import BodyPairs
from vi_contact.robot.parts import Array
from vi_contact.robot.robot import Robot
from vi_contact.simulation.simulator import Simulator
from vi_contact.simulation.state import State
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.viewer import forces

_log = logging.getLogger("vi_contact")

PICTURES_PER_SECOND = 60.0
HEARTBEAT = 0.5
"""Time after which a silent stream sends a comment, and so notices that its page has gone [s]."""
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
PATIENCE = 5.0
"""Longest wait for the page that the browser was asked to open [s]."""


def view(
    subject: Robot | Trajectory,
    q: ArrayLike | None = None,
    *,
    robot: Robot | None = None,
    realtime: bool = True,
    collisions: bool = False,
    open_browser: bool = True,
    port: int = 0,
) -> View:
    """Shows a robot, or plays a trajectory, in the browser; returns at once.

    A robot is shown in configuration q, its neutral one if not given; `sim.run(..., viewer=view)`
    then shows it as it moves. With realtime=False the run takes no longer than without a viewer,
    and is played back when it has ended. robot: of a trajectory that was loaded elsewhere.
    port: 0 for any that is free.

    The view lasts until `close()` or the end of the process; `with vc.view(...)` closes it too.
    """
    from vi_contact.viewer import page, report

    if isinstance(subject, Trajectory):
        text = report.report_page(subject, robot, collisions)
        return View(lambda: text, None, realtime, collisions, open_browser, port)
    if not isinstance(subject, Robot):
        raise ArgumentError("subject", subject, "a vc.Robot or a vc.Trajectory")
    start = page.picture_configuration(subject) if q is None else subject.check_q(q)
    view = View(None, subject, realtime, collisions, open_browser, port)
    view.place(start)
    return view


class View:
    """A page that is being served; `url` is its address."""

    def __init__(
        self,
        make_page: Callable[[], str] | None,
        robot: Robot | None,
        realtime: bool,
        collisions: bool,
        open_browser: bool,
        port: int,
    ) -> None:
        self._make_page = make_page
        self._robot = robot
        self._realtime = realtime
        self._collisions = collisions
        self._news = threading.Condition()
        self._picture = ""
        self._pictures = 0
        self._edition = 0
        self._pages = 0
        self._closed = False
        self._ground: Ground | None = Ground()
        self._obstacles: tuple[Obstacle, ...] = ()
        self._pairs = BodyPairs()
        self._camera: Array = np.zeros(3)
        self._first_com: Array = np.zeros(3)
        self._first_time = self._wall_start = 0.0
        try:
            self._server = _Server(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ViewError(f"cannot serve at port {port}: {error.strerror}") from error
        self._server.view = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="vi_contact view", daemon=True
        )
        self._thread.start()
        self._expected = open_browser and _has_screen() and webbrowser.open(self.url)
        if open_browser and not self._expected:
            _log.warning("no browser could be opened here: open %s by hand", self.url)

    def __repr__(self) -> str:
        return f"View({'closed' if self._closed else self.url})"

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pages(self) -> int:
        """Open pages that listen."""
        return self._pages

    def close(self) -> None:
        """Ends the server; pages that are open keep their last picture."""
        if self._closed:
            return
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # ------------------------------------------------------------ pictures
    def place(self, q: ArrayLike) -> None:
        """Shows the robot in configuration q (nq,)."""
        robot = self._of_robot()
        configuration = robot.check_q(q)
        if self._make_page is None:
            self._open_page(configuration)
        state = robot.to_maximal(configuration)
        self._publish(0.0, state.p_WB, state.quat_WB_xyzw, np.zeros((0, 6)), np.zeros((0, 3)))

    def start(self, sim: Simulator) -> int:
        """Called by `Simulator.run`: shows its robot; the steps between two pictures."""
        robot = self._of_robot()
        if sim.robot.model is not robot.model:
            raise ViewError(
                f"this view is of robot '{robot.name}', not of the simulated one; "
                "make it by vc.view(sim.robot)"
            )
        if not self._realtime:
            return 0
        if not self._knows(sim):
            self._robot, self._ground = sim.robot, sim.ground
            self._obstacles, self._pairs = sim.obstacles, sim.body_pairs
            self._open_page(sim.state.q)
        with self._news:
            if self._expected:
                self._news.wait_for(lambda: self._pages > 0, PATIENCE)
        self._first_time, self._wall_start = sim.state.time, clock.monotonic()
        return max(1, int(1.0 / (PICTURES_PER_SECOND * sim.time_step)))

    def _knows(self, sim: Simulator) -> bool:
        """Whether the page is of this robot, on this ground, among these obstacles."""
        return (
            sim.robot is self._robot
            and sim.ground == self._ground
            and [*map(id, sim.obstacles)] == [*map(id, self._obstacles)]
            and sim.body_pairs.names == self._pairs.names
        )

    def show(self, state: State, touches: Array, points: Array) -> None:
        """Called by `Simulator.run`: a picture, at the time it is due."""
        due = self._wall_start + state.time - self._first_time
        delay = due - clock.monotonic()
        if delay > 0.0:
            clock.sleep(delay)
        self._publish(state.time, state.p_WB, state.quat_WB_xyzw, touches, points)

    def finish(self, trajectory: Trajectory) -> None:
        """Called by `Simulator.run`: a view that is not in real time plays what was recorded."""
        if self._realtime:
            return
        from vi_contact.viewer.report import report_page

        self._set_page(lambda: report_page(trajectory, collisions=self._collisions))

    def _of_robot(self) -> Robot:
        if self._closed:
            raise ViewError("this view is closed; make another by vc.view")
        if self._robot is None:
            raise ViewError("this view is of a trajectory; make one of the robot by vc.view(robot)")
        return self._robot

    def _open_page(self, q: Array) -> None:
        """From now on the page is of the robot, to begin with in configuration q."""
        from vi_contact.viewer import page, scene

        robot = self._of_robot()
        lower, upper = scene.bounding_box(robot, q)
        self._camera = 0.5 * (lower + upper)
        self._first_com = scene.centre_of_mass(robot, robot.to_maximal(q).p_WB)
        plane = None if self._ground is None else self._ground.numbers[:4]
        arrows = len(robot.contacts) if self._ground is not None else 0
        if self._pairs:
            arrows = forces.MAX_ARROWS
        parts = (plane, self._collisions, "live", self._obstacles, min(arrows, forces.MAX_ARROWS))
        edition = {"edition": self._edition + 1}
        self._set_page(lambda: page.render(robot.name, page.still_data(robot, q, *parts) | edition))

    def _publish(
        self, time: float, p_WB: Array, quat_WB_xyzw: Array, touches: Array, points: Array
    ) -> None:
        from vi_contact.viewer import scene

        robot = self._of_robot()
        drift = scene.centre_of_mass(robot, p_WB) - self._first_com
        contacts = robot.contacts if self._ground is not None else ()
        places = np.empty((len(touches), 3))
        places[touches[:, 1] >= len(contacts)] = points
        if self._ground is not None:
            normal = self._ground.unit_normal
            drift = drift - (drift @ normal) * normal
            for place, index in zip(places, touches[:, 1].astype(int), strict=True):
                if index < len(contacts):
                    contact = contacts[index]
                    [centre] = scene.world_points(
                        contact.body, contact.p_BC, p_WB[None], quat_WB_xyzw[None]
                    )
                    place[:] = centre - contact.radius * normal
        pushes = forces.pushes(touches, places, self._pairs.bodies, len(contacts))
        picture = {
            "time": time,
            "poses": scene.poses_of(p_WB, quat_WB_xyzw).ravel().tolist(),
            "springs": scene.spring_ends(robot, p_WB[None], quat_WB_xyzw[None]).ravel().tolist(),
            "touches": forces.largest(pushes[:, 1:]).ravel().tolist(),
            "centre": (self._camera + drift).tolist(),
        }
        with self._news:
            self._picture = json.dumps(picture)
            self._pictures += 1
            self._news.notify_all()

    # ------------------------------------------------------------ server
    def _set_page(self, make_page: Callable[[], str]) -> None:
        """Another page; those that are open load it."""
        with self._news:
            self._make_page = make_page
            self._picture = ""
            self._edition += 1
            self._news.notify_all()

    def page(self) -> str:
        """What the browser gets."""
        assert self._make_page is not None
        return self._make_page()

    def stream(self, edition: str, send: Callable[[str], None]) -> None:
        """Sends a page the last picture and every new one, but for those that come too fast.

        A page of another edition, as when it was changed while it opened, is told to load again.
        """
        seen = -1
        with self._news:
            self._pages += 1
            self._news.notify_all()
        try:
            while not self._closed:
                with self._news:
                    current, picture = str(self._edition), self._picture
                    fresh, seen = self._pictures != seen, self._pictures
                if current != edition:
                    send('data: {"reload": true}\n\n')
                    return
                send(f"data: {picture}\n\n" if picture and fresh else ": still here\n\n")
                self._wait(edition, seen)
        finally:
            with self._news:
                self._pages -= 1

    def _wait(self, edition: str, seen: int) -> None:
        """Until there is something to send."""
        with self._news:
            self._news.wait_for(
                lambda: self._closed or str(self._edition) != edition or self._pictures != seen,
                HEARTBEAT,
            )


class _Server(ThreadingHTTPServer):
    """Knows the view it serves."""

    daemon_threads = True
    view: View


class _Handler(BaseHTTPRequestHandler):
    """Two addresses: the page and the stream."""

    server: _Server

    def do_GET(self) -> None:
        if not self._is_addressed():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "this page is for this computer only")
            return
        # a page gone while it was written to is no error
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self.path == "/":
                self._answer("text/html; charset=utf-8", self.server.view.page().encode())
            elif self.path.startswith("/stream/"):
                self._head("text/event-stream", None)
                self.server.view.stream(self.path.removeprefix("/stream/"), self._send)
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

    def _is_addressed(self) -> bool:
        """Whether the browser asked for this computer by a name that no one else can give it.

        A page from elsewhere whose name was made to lead here (DNS rebinding) may not read ours.
        """
        port = self.server.server_address[1]
        hosts = [f"{name}:{port}" for name in LOCAL_NAMES] + ([*LOCAL_NAMES] if port == 80 else [])
        asked = self.headers.get_all("Host", [])
        return len(asked) == 1 and asked[0].strip().lower() in hosts

    def _head(self, kind: str, length: int | None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _answer(self, kind: str, content: bytes) -> None:
        self._head(kind, len(content))
        self.wfile.write(content)

    def _send(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent: the library does not print."""


def _has_screen() -> bool:
    """Whether a browser could open a window here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
