"""The record of a simulation."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from vi_contact.errors import TrajectoryFileError
from vi_contact.robot.obstacles import Obstacle, from_numbers, to_numbers
from vi_contact.robot.parts import Array, Record
from vi_contact.robot.robot import Robot
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
        """Reads what `save` wrote."""
        try:
            with np.load(Path(path), allow_pickle=False) as file:
                values = dict(file)
        except FileNotFoundError:
            raise TrajectoryFileError(f"there is no file {path}") from None
        except (OSError, ValueError, zipfile.BadZipFile):
            raise TrajectoryFileError(f"{path} is not a saved trajectory (.npz)") from None
        try:
            for array in values.values():
                array.flags.writeable = False
            entries = {entry.name: values.pop(f"ledger_{entry.name}") for entry in fields(Ledger)}
            parts = (
                "bodies", "points", "radii", "plane", "touches", "link_points", "link_bodies",
                "body_gaps",
            )  # fmt: skip
            contacts = ContactTable(
                names=tuple(str(name) for name in values.pop("contacts_names")),
                links=tuple(str(name) for name in values.pop("contacts_links")),
                p_WB=values["p_WB"],
                quat_WB_xyzw=values["quat_WB_xyzw"],
                **{part: values.pop(f"contacts_{part}") for part in parts},
            )
            prefix = "obstacles_"
            names = [name for name in values if name.startswith(prefix)]
            obstacles = from_numbers(
                {name.removeprefix(prefix): values.pop(name) for name in names}
            )
            occurrences = tuple(
                Occurrence(float(time), str(kind), str(name), int(refinements))
                for time, kind, name, refinements in values.pop("occurrences")
            )
            return Trajectory(
                robot_name=str(values.pop("robot_name")),
                robot_file=str(values.pop("robot_file")),
                robot_path=str(values.pop("robot_path")),
                body_names=tuple(str(name) for name in values.pop("body_names")),
                time_step=float(values.pop("time_step")),
                status=Status(int(values.pop("status"))),
                wall_time=float(values.pop("wall_time")),
                ledger=Ledger(**entries),
                contacts=contacts,
                occurrences=occurrences,
                obstacles=obstacles,
                **values,
            )
        except (KeyError, TypeError, ValueError):
            raise TrajectoryFileError(
                f"{path} is an .npz file, but not a trajectory of this version"
            ) from None
