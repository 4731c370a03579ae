"""The record of a simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vi_contact.errors import ObstacleError, TrajectoryFileError
from vi_contact.robot.obstacles import Obstacle, from_numbers, to_numbers
from vi_contact.robot.parts import WORLD, Array, Record
from vi_contact.robot.robot import Robot
from vi_contact.simulation.archive import (
    UNIT_TOLERANCE,
    Contents,
    check_unique,
    check_unit,
    check_whole,
    read_arrays,
)
from vi_contact.simulation.contacts import ContactTable
from vi_contact.simulation.events import Occurrence
from vi_contact.simulation.ledger import Ledger
from vi_contact.solvers.newton import Status


@dataclass(frozen=True)
class Trajectory(Record):
    """N steps between N + 1 nodes; arrays are read-only."""

    robot_name: str
    robot_file: str
    body_names: tuple[str, ...]
    time_step: float
    """[s]."""
    time: Array
    """(N+1,) [s]; with events not even, and the same twice where a reset changed the state."""
    q: Array
    """(N+1, nq) as in pinocchio."""
    v: Array
    """(N+1, nv) at the nodes."""
    tau: Array
    """(N, nu) torques that acted, within the limits of the motors [N m or N]."""
    tau_command: Array
    """(N, nu) torques that were asked for."""
    kinetic: Array
    """(N+1,) [J]."""
    potential: Array
    """(N+1,) of gravity and springs [J]."""
    linear_momentum: Array
    """(N+1, 3) [N s]."""
    angular_momentum: Array
    """(N+1, 3) about the centre of mass [N m s]."""
    constraint_error: Array
    """(N+1,) largest violation of a loop or mimic joint [m or rad]; tree joints cannot open."""
    p_WB: Array
    """(N+1, n, 3) positions of the bodies' centres of mass [m]."""
    quat_WB_xyzw: Array
    """(N+1, n, 4) orientations of the bodies."""
    v_WB: Array
    """(N+1, n, 3) [m/s]."""
    w_WB_B: Array
    """(N+1, n, 3) body axes [rad/s]."""
    ledger: Ledger
    contacts: ContactTable
    """By name: gap (N+1,), force (N, 3) in world axes, sliding (N,)."""
    methods: Array
    """(N,) 0 where Newton's method solved the step, 1 sweeps, 2 the interior point."""
    iterations: Array
    """(N,) Newton iterations."""
    parts: Array
    """(N,) smaller steps that each step took: more than one where the whole did not converge, or
    where a body turned farther than a step may."""
    residuals: Array
    """(N,) largest momentum residual of each step [N s or N m s]."""
    errors: Array
    """(N,) estimate of the error of each step [m or rad], see `StepInfo.error`."""
    status: Status
    """Of the last step tried; the trajectory ends before a step that failed, and with ZENO in the
    midst of one, where events follow each other without end."""
    wall_time: float
    """Time the simulation took [s]."""
    robot_path: str = ""
    """The whole path of the robot's file, if it has one."""
    robot: Robot | None = field(default=None, repr=False, compare=False)
    """What moved; not saved."""
    obstacles: tuple[Obstacle, ...] = field(default=(), repr=False, compare=False)
    """What stood in its way."""
    occurrences: tuple[Occurrence, ...] = ()
    """With contact laws or events: every impact, release and event."""

    def __len__(self) -> int:
        return len(self.iterations)

    def __repr__(self) -> str:
        mean = float(self.iterations.mean()) if len(self) else 0.0
        return (
            f"Trajectory('{self.robot_name}', {len(self)} steps of {self.time_step:g} s, "
            f"{self.status.name.lower()}, {mean:.2f} iterations per step)"
        )

    @property
    def impacts(self) -> list[tuple[float, str]]:
        """(time, contact) of every contact that closed."""
        solved = [(what.time, what.name) for what in self.occurrences if what.kind == "impact"]
        return solved or self.contacts.impacts(self.time)

    @property
    def energy(self) -> Array:
        """(N+1,) [J]."""
        return self.kinetic + self.potential

    def to_html(
        self, path: str | Path, robot: Robot | None = None, collisions: bool = False
    ) -> Path:
        """Writes a report, .html, that opens offline: animation, plots, summary; its path.

        robot: where the trajectory cannot tell, as after loading it elsewhere; collisions: with the
        collision shapes, to be switched on in the page.
        """
        from vi_contact.viewer.page import save_page
        from vi_contact.viewer.report import report_page

        return save_page(path, report_page(self, robot, collisions))

    def plot(self, path: str | Path, robot: Robot | None = None) -> Path:
        """Writes plots of energy, joints, contacts and errors: .png, .pdf or .svg; the path."""
        from vi_contact.viewer.figure import save_figure

        return save_figure(self, path, robot)

    def save(self, path: str | Path) -> None:
        """Writes a compressed .npz file."""
        values: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, (Ledger, ContactTable)):
                for entry in fields(value):
                    if entry.name not in values:
                        values[f"{part.name}_{entry.name}"] = getattr(value, entry.name)
            elif part.name == "obstacles":
                values |= {f"obstacles_{k}": v for k, v in to_numbers(value).items()}
            elif part.name == "occurrences":
                values[part.name] = np.array(value, dtype=np.str_).reshape(-1, 4)
            elif part.name != "robot":
                values[part.name] = int(value) if isinstance(value, Status) else value
        try:
            with Path(path).open("wb") as file:
                np.savez_compressed(file, **values)
        except OSError as error:
            raise TrajectoryFileError(f"cannot write {path}: {error.strerror}") from error

    @staticmethod
    def load(path: str | Path) -> Trajectory:
        """Reads what `save` wrote; every array is checked, as files come from anywhere."""
        arrays = read_arrays(path, "a saved trajectory")
        try:
            return _from_contents(Contents(arrays))
        except (ValueError, ObstacleError) as error:
            raise TrajectoryFileError(
                f"{path} is an .npz file, but not a trajectory of this version: {error}"
            ) from None


def _from_contents(file: Contents) -> Trajectory:
    """A trajectory from arrays whose types, shapes and numbers are what they must be."""
    bodies = tuple(map(str, file.words("body_names", None)))
    time = file.numbers("time", None)
    nodes, count = len(time), len(bodies)
    steps = nodes - 1
    if steps < 0 or (np.diff(time) < 0.0).any():
        raise ValueError("'time' is empty or goes back")
    q, v = file.numbers("q", nodes, None), file.numbers("v", nodes, None)
    tau = file.numbers("tau", steps, None)
    p_WB, quat_WB = (
        file.numbers(k, nodes, count, n) for k, n in (("p_WB", 3), ("quat_WB_xyzw", 4))
    )
    check_unit("quat_WB_xyzw", quat_WB)
    status = int(file.counts("status"))
    if status not in tuple(Status):
        raise ValueError(f"'status' is {status}")
    time_step = file.number("time_step")
    if time_step <= 0.0:
        raise ValueError(f"'time_step' is {time_step}")
    obstacles = file.part("obstacles_")
    trajectory = Trajectory(
        robot_name=file.word("robot_name"),
        robot_file=file.word("robot_file"),
        robot_path=file.word("robot_path"),
        body_names=bodies,
        time_step=time_step,
        time=time,
        q=q,
        v=v,
        tau=tau,
        tau_command=file.numbers("tau_command", steps, tau.shape[1]),
        linear_momentum=file.numbers("linear_momentum", nodes, 3),
        angular_momentum=file.numbers("angular_momentum", nodes, 3),
        p_WB=p_WB,
        quat_WB_xyzw=quat_WB,
        v_WB=file.numbers("v_WB", nodes, count, 3),
        w_WB_B=file.numbers("w_WB_B", nodes, count, 3),
        ledger=Ledger(**{e.name: file.numbers(f"ledger_{e.name}", steps) for e in fields(Ledger)}),
        contacts=_contacts(file, nodes, count, p_WB, quat_WB),
        residuals=file.numbers("residuals", steps),
        errors=file.numbers("errors", steps, finite=False),
        status=Status(status),
        wall_time=file.number("wall_time"),
        occurrences=tuple(map(_occurrence, file.words("occurrences", None, 4))),
        obstacles=from_numbers(obstacles),
        kinetic=file.numbers("kinetic", nodes),
        potential=file.numbers("potential", nodes),
        constraint_error=file.numbers("constraint_error", nodes),
        methods=file.counts("methods", steps),
        iterations=file.counts("iterations", steps),
        parts=file.counts("parts", steps),
    )
    if unknown := list(file.left()):
        raise ValueError(f"it has '{unknown[0]}', which is not known")
    return trajectory


def _contacts(file: Contents, nodes: int, count: int, p_WB: Array, quat_WB: Array) -> ContactTable:
    names = tuple(map(str, file.words("contacts_names", None)))
    links = tuple(map(str, file.words("contacts_links", None)))
    check_unique("contacts_names", names)
    ground, every = len(links), len(names)
    if ground > every:
        raise ValueError("'contacts_links' are more than there are contacts")
    plane = file.numbers("contacts_plane", 4)
    if plane[:3].any() and abs(float(np.linalg.norm(plane[:3])) - 1.0) > UNIT_TOLERANCE:
        raise ValueError("'contacts_plane' has a normal whose length is not one")
    bodies = file.numbers("contacts_bodies", ground, whole=(WORLD, count))
    touches = file.numbers("contacts_touches", None, 6)
    check_whole("contacts_touches", touches[:, 0], 0, nodes - 1)
    check_whole("contacts_touches", touches[:, 1], 0, every)
    between = int(np.count_nonzero(touches[:, 1] >= ground))
    link_points = file.numbers("contacts_link_points", between, 4)
    check_whole("contacts_link_points", link_points[:, 0], 0, nodes - 1)
    gaps = file.numbers("contacts_body_gaps", None, 3)
    check_whole("contacts_body_gaps", gaps[:, 0], 0, nodes)
    check_whole("contacts_body_gaps", gaps[:, 1], ground, every)
    return ContactTable(
        names=names,
        links=links,
        bodies=bodies,
        points=file.numbers("contacts_points", ground, 3),
        radii=file.numbers("contacts_radii", ground),
        plane=plane,
        touches=touches,
        link_points=link_points,
        link_bodies=file.numbers("contacts_link_bodies", every - ground, 2, whole=(WORLD, count)),
        body_gaps=gaps,
        p_WB=p_WB,
        quat_WB_xyzw=quat_WB,
    )


def _occurrence(row: NDArray[np.str_]) -> Occurrence:
    time, kind, name, refinements = map(str, row)
    if kind not in ("impact", "release", "event") or not math.isfinite(float(time)):
        raise ValueError("'occurrences' has a time or kind that cannot be")
    return Occurrence(float(time), kind, name, int(refinements))
