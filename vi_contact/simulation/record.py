"""What a run leaves behind, while it goes: the arrays of a trajectory, and a progress bar."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from vi_contact.errors import TimeStepError
from vi_contact.robot.parts import Array, read_only
from vi_contact.robot.robot import Robot, computer_memory
from vi_contact.simulation.contacts import ContactTable
from vi_contact.simulation.hybrid import Log
from vi_contact.simulation.ledger import Ledger
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.solvers.newton import Status
from vi_contact.solvers.stepper import Report, Stepper

if TYPE_CHECKING:
    from vi_contact.simulation.simulator import Simulator


def check_room(robot: Robot, steps: int) -> None:
    """TimeStepError where this computer has no memory for the trajectory of so many steps."""
    numbers = 2 * (robot.nq + robot.nv + robot.nu) + 20 + 20 * len(robot.bodies)
    needed, memory = 8.0 * numbers * steps, computer_memory()
    if needed > memory:
        raise TimeStepError(
            f"{steps:.3g} steps take {1e-9 * needed:.3g} GB in a trajectory, and this computer has "
            f"{1e-9 * memory:.3g} GB; run a shorter time, and again from where it ended"
        )


class Record:
    """Arrays that a run fills; links: whether they may touch each other or obstacles."""

    def __init__(self, robot: Robot, steps: int, links: bool = False) -> None:
        self.links = links
        self.q = np.empty((steps + 1, robot.nq))
        self.v = np.empty((steps + 1, robot.nv))
        self.tau = np.zeros((steps, robot.nu))
        self.tau_command = np.zeros((steps, robot.nu))
        self.works = np.empty((steps, 6))
        self.counts = np.empty((steps, 6))
        self.touches: list[Array] = []
        self.link_points: list[Array] = []
        self.body_gaps: list[Array] = []

    @staticmethod
    def of_log(robot: Robot, log: Log) -> Record:
        """The same arrays from the parts of a motion with events."""
        record = Record(robot, len(log.parts))
        record.q[0], record.v[0] = log.q, log.v
        for k, part in enumerate(log.parts):
            record.q[k + 1], record.v[k + 1], record.tau[k] = part.q, part.v, part.tau
            record.works[k], record.counts[k] = part.works, part.counts
            if part.command is not None:
                record.tau_command[k] = part.command
            if len(part.touches):
                steps = np.full((len(part.touches), 1), float(k))
                record.touches.append(np.hstack([steps, part.touches]))
        return record

    def run(
        self,
        stepper: Stepper,
        first: int,
        count: int,
        tau: Array | None,
        wrenches: Array | None,
    ) -> tuple[int, Report]:
        nodes, steps = slice(first, first + count + 1), slice(first, first + count)
        result = stepper.run(
            count, tau, False, wrenches, self.q[nodes], self.v[nodes], self.tau[steps],
            self.works[steps], self.counts[steps],
        )  # fmt: skip
        touches = stepper.log()
        if len(touches):
            touches[:, 0] += first
            self.touches.append(touches)
        if self.links:
            points, gaps = stepper.point_log(), stepper.gap_log()
            points[:, 0] += first
            gaps[:, 0] += first
            self.link_points.append(points)
            self.body_gaps.append(gaps)
        return result

    def last_touches(self, step: int) -> tuple[Array, Array]:
        """(M, 6) rows of what touched in a step just done, (L, 3) places of those of links."""
        rows = self.touches[-1] if self.touches else np.zeros((0, 6))
        points = self.link_points[-1] if self.link_points else np.zeros((0, 4))
        return rows[rows[:, 0] == step], points[points[:, 0] == step, 1:]

    def trajectory(
        self,
        sim: Simulator,
        done: int,
        first_time: float,
        status: Status,
        wall_time: float,
        log: Log | None = None,
    ) -> Trajectory:
        nodes, count = done + 1, len(sim.robot.bodies)
        q, v = self.q[:nodes].copy(), self.v[:nodes].copy()
        scalars, poses = np.empty((nodes, 9)), np.empty((nodes, count, 7))
        velocities = np.empty((nodes, count, 6))
        sim._observer.observe(q, v, scalars, poses, velocities)
        works = [column.copy() for column in self.works[:done].T]
        motor, external, damping, integration, friction, impact = map(read_only, works)
        kinetic, potential = scalars[:, 0].copy(), scalars[:, 1].copy()
        change: Array = np.diff(kinetic + potential)
        time: Array = first_time + sim.time_step * np.arange(nodes, dtype=np.float64)
        if log is not None:
            time = np.array([first_time, *(part.node.time for part in log.parts)])
        ledger = Ledger(
            motor=motor,
            external=external,
            damping=damping,
            friction=friction,
            impact=impact,
            integration=integration,
            change=read_only(change),
        )
        return Trajectory(
            robot_name=sim.robot.name,
            robot_file=sim.robot.file,
            body_names=tuple(body.name for body in sim.robot.bodies),
            time_step=sim.time_step,
            time=read_only(time),
            q=read_only(q),
            v=read_only(v),
            tau=read_only(self.tau[:done].copy()),
            tau_command=read_only(self.tau_command[:done].copy()),
            kinetic=read_only(kinetic),
            potential=read_only(potential),
            linear_momentum=read_only(scalars[:, 3:6].copy()),
            angular_momentum=read_only(scalars[:, 6:].copy()),
            constraint_error=read_only(scalars[:, 2].copy()),
            p_WB=read_only(poses[:, :, :3].copy()),
            quat_WB_xyzw=read_only(poses[:, :, 3:].copy()),
            v_WB=read_only(velocities[:, :, :3].copy()),
            w_WB_B=read_only(velocities[:, :, 3:].copy()),
            ledger=ledger,
            contacts=self._contacts(sim, done, poses),
            methods=read_only(self.counts[:done, 3].astype(int)),
            iterations=read_only(self.counts[:done, 0].astype(int)),
            parts=read_only(self.counts[:done, 1].astype(int)),
            residuals=read_only(self.counts[:done, 4].copy()),
            errors=read_only(self.counts[:done, 5].copy()),
            status=status,
            wall_time=wall_time,
            robot_path=sim.robot.path,
            robot=sim.robot,
            obstacles=sim.obstacles,
            occurrences=tuple(log.occurrences) if log is not None else (),
        )

    def _contacts(self, sim: Simulator, done: int, poses: Array) -> ContactTable:
        contacts = sim.robot.contacts if sim.ground is not None else ()
        touches = np.concatenate(self.touches) if self.touches else np.zeros((0, 6))
        points = np.concatenate(self.link_points) if self.link_points else np.zeros((0, 4))
        gaps = np.concatenate(self.body_gaps) if self.body_gaps else np.zeros((0, 3))
        gaps[:, 1] += len(contacts)
        return ContactTable(
            names=(*(contact.name for contact in contacts), *sim.body_pairs.names),
            links=tuple(contact.link for contact in contacts),
            bodies=read_only(np.array([float(contact.body) for contact in contacts])),
            points=read_only(np.array([contact.p_BC for contact in contacts]).reshape(-1, 3)),
            radii=read_only(np.array([contact.radius for contact in contacts])),
            plane=read_only(sim.ground.numbers[:4] if sim.ground else np.zeros(4)),
            touches=read_only(touches[touches[:, 0] < done]),
            link_points=read_only(points[points[:, 0] < done]),
            link_bodies=read_only(sim.body_pairs.bodies),
            body_gaps=read_only(gaps[gaps[:, 0] <= done]),
            p_WB=read_only(poses[:, :, :3].copy()),
            quat_WB_xyzw=read_only(poses[:, :, 3:].copy()),
        )


class ProgressBar:
    """One line on the standard error stream."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.shown = -1

    def show(self, done: int) -> None:
        percent = 100 * done // self.steps
        if percent == self.shown:
            return
        self.shown = percent
        end = "\n" if done == self.steps else ""
        sys.stderr.write(
            f"\r[{'#' * (percent // 4):<25}] {percent:3d} % of {self.steps} steps{end}"
        )
        sys.stderr.flush()
