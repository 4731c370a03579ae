"""The simulator: a robot, a time step, and the state it is in."""

from __future__ import annotations

import contextlib
import math
import sys
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vi_contact import _core
from vi_contact.errors import (
    ArrayError,
    JointLimitError,
    LinkNotFoundError,
    OpenLoopError,
    OptionError,
    PenetrationError,
    PlacementError,
    RotationTooFastError,
    StepFailedError,
    TimeStepError,
)
from vi_contact.mechanics.ground import Ground
from vi_contact.robot import closure
from vi_contact.robot.maximal import check_array
from vi_contact.robot.parts import WORLD, Array
from vi_contact.robot.robot import Robot
from vi_contact.simulation.command import JointCommand
from vi_contact.simulation.contacts import ContactTable
from vi_contact.simulation.ledger import Ledger
from vi_contact.simulation.state import State, read_only
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.simulation.viewing import Viewer
from vi_contact.solvers.newton import SolverOptions, Status, make_stepper

Controller = Callable[[State], ArrayLike | JointCommand]

OPEN_LOOP_TOLERANCE = 1e-8
"""Largest loop error of a start [m or rad]; the first step closes it, at 1e-6 m/s in 10 ms."""

Report = tuple[int, int, float, float, int, int, int, int]
"""Of a compiled step: status, iterations, residual, loop error, body at fault, parts."""

PENETRATION_TOLERANCE = 1e-6
"""Deepest contact of a start [m]; the first step lifts it, at 1e-4 m/s in 10 ms."""

LIMIT_TOLERANCE = 1e-6
"""Farthest that a joint may start beyond its limit [rad or m]; the first step moves it back."""

METHODS = ("newton", "line search", "interior point")

STEPS_PER_CALL = 10_000
"""Longest compiled call, so that Ctrl-C and the progress bar come through."""


@dataclass(frozen=True)
class StepInfo:
    """What the last step did."""

    status: Status
    iterations: int
    residual: float
    """Largest momentum residual [N s or N m s]."""
    closure: float
    """Largest loop error [m or rad]."""
    parts: int
    """Smaller steps that it took; more than one if the step as a whole did not converge."""
    contacts: int
    """Closed contacts."""
    method: str
    """What solved it: "newton", or behind it "line search" or "interior point"."""
    saturated: tuple[str, ...]
    """Joints whose drive gave less than was asked for."""


@dataclass(frozen=True)
class Snapshot:
    """All that a simulator needs to go on from here, bit for bit."""

    time: float
    numbers: Array


class Simulator:
    """Moves a robot in time by a variational integrator.

    Forces: gravity, joint torques within effort, velocity and motor limits, joint damping, springs,
    external wrenches; loops and mimic joints are held. Contacts with the ground are hard and
    inelastic unless it has restitution, with Coulomb friction. Joints stop at their limits and have
    Coulomb friction; joint_limits=False leaves out both.

    A drive without a motor fades to zero over the last tenth before its velocity limit; with a
    motor, its voltage and current set the limits at the mean speed of each step.
    """

    def __init__(
        self,
        robot: Robot,
        time_step: float = 0.01,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        options: SolverOptions | None = None,
        ground: Ground | None = Ground(),  # noqa: B008 - immutable
        joint_limits: bool = True,
    ) -> None:
        self.robot = robot
        self.ground = ground
        self.joint_limits = joint_limits
        self.time_step = check_time_step(time_step)
        self.gravity = read_only(check_array("gravity", gravity, 3))
        self.options = check_options(options or SolverOptions())
        self._stepper = make_stepper(
            robot, self.time_step, self.gravity, self.options, ground, joint_limits
        )
        self._observer = make_stepper(
            robot, self.time_step, self.gravity, self.options, ground, joint_limits
        )
        self._nu = robot.nu
        self._size = self._stepper.state_size()
        self._names = [
            joint.name for joint in robot.joints if joint.actuated for _ in range(joint.nv)
        ]
        self._report = (0, 0, 0.0, 0.0, WORLD, 1, 0, 0)
        self._not_ready: PenetrationError | None = None
        try:
            self.reset()
        except PenetrationError as error:  # a fixed robot that reaches into the ground
            self._stepper.reset(robot.neutral(), np.zeros(robot.nv))
            self._state = self._take_state(0.0)
            self._not_ready = error

    # ------------------------------------------------------------ state
    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @property
    def info(self) -> StepInfo:
        """What the last step did."""
        status, iterations, residual, closure_error, _, parts, contacts, method = self._report
        applied, saturated = np.empty(self._nu), np.empty(self._nu)
        self._stepper.get_tau(applied, saturated)
        names = tuple(name for name, on in zip(self._names, saturated, strict=True) if on)
        return StepInfo(
            Status(status), iterations, residual, closure_error, parts, contacts, METHODS[method],
            names,
        )  # fmt: skip

    def reset(
        self, q: ArrayLike | None = None, v: ArrayLike | None = None, time: float = 0.0
    ) -> State:
        """Starts from q (nq,) and v (nv,) at the node.

        Without q, from the neutral configuration, with a base that is free or on a vertical slide
        lifted onto the ground. A start with a contact below the ground or a joint beyond its limits
        is an error.

        The start is momentum-consistent, p = M(q) v, so the motion is second order from the first
        step on. A velocity that would open a loop is projected on the loop, as by an impact.
        """
        robot = self.robot
        start = self._standard_start() if q is None else robot.check_q(q)
        velocity = np.zeros(robot.nv) if v is None else robot.check_v(v)
        if not math.isfinite(time):
            raise TimeStepError(f"the start time is {time}; it must be finite")
        if robot.loops or robot.mimics:
            self._check_closed(start)
        self._observer.reset(start, velocity)
        self._check_inside(start)
        speed, body = self._observer.fastest_rotation(velocity)
        if speed * self.time_step >= 2.0:
            raise RotationTooFastError(robot.bodies[body].name, speed, self.time_step)
        self._stepper.reset(start, velocity)
        self._state = self._take_state(float(time))
        self._not_ready = None
        return self._state

    def _standard_start(self) -> Array:
        """The neutral configuration; a base that is free or on a vertical slide is lifted."""
        q = self.robot.neutral()
        self._observer.reset(q, np.zeros(self.robot.nv))
        depth, _ = self._observer.deepest_contact()
        if self.ground is None or depth <= 0.0:
            return q
        if len(self.robot.base_dofs):
            q[:3] += depth * self.ground.unit_normal
        elif self.ground.unit_normal[2] == 1.0:
            with contextlib.suppress(PlacementError):  # on a vertical slide
                q = self.robot.on_ground(q, self.ground.height)
        return q

    def snapshot(self) -> Snapshot:
        """The whole state with the warm start, for `restore`."""
        if self._not_ready:
            raise self._not_ready
        return Snapshot(self._state.time, self._state._numbers)

    def restore(self, snapshot: Snapshot) -> State:
        """Goes back to a snapshot; what follows is the same, bit for bit."""
        if snapshot.numbers.shape != (self._size,):
            raise ArrayError("snapshot", "it is of another robot")
        self._stepper.set_state(snapshot.numbers)
        self._state = State(self.robot, self._observer, snapshot.time, snapshot.numbers)
        self._not_ready = None
        return self._state

    def _take_state(self, time: float) -> State:
        numbers = np.empty(self._size)
        self._stepper.get_state(numbers)
        return State(self.robot, self._observer, time, numbers)

    def _check_inside(self, q: Array) -> None:
        """No contact below the ground, no joint beyond its limits."""
        depth, contact = self._observer.deepest_contact()
        if depth > PENETRATION_TOLERANCE:
            raise PenetrationError(self.robot.name, self.robot.contact_names[contact], depth)
        for joint in self.robot.joints if self.joint_limits else ():
            if joint.nv != 1 or joint.continuous:
                continue
            value, lower, upper = float(q[joint.idx_q]), joint.lower[0], joint.upper[0]
            if not lower - LIMIT_TOLERANCE <= value <= upper + LIMIT_TOLERANCE:
                raise JointLimitError(self.robot.name, joint.name, value, lower, upper)

    def _check_closed(self, q: Array) -> None:
        error = np.abs(closure.closure_rows(self.robot, q)[0])
        if error.max() <= OPEN_LOOP_TOLERANCE:
            return
        gaps: dict[str, float] = {}
        for name, value in zip(closure.closure_names(self.robot), error, strict=True):
            if value > OPEN_LOOP_TOLERANCE:
                gaps[name] = max(gaps.get(name, 0.0), float(value))
        raise OpenLoopError(self.robot.name, gaps)

    # ------------------------------------------------------------ steps
    def step(
        self,
        tau: ArrayLike | JointCommand | None = None,
        wrenches: Mapping[str, ArrayLike] | None = None,
    ) -> State:
        """One time step under joint torques tau (nu,) and wrenches on links; the new state.

        Instead of torques, a JointCommand adds a spring and a damper to each drive.
        A wrench is (6,): force and torque in world axes, the force at the centre of mass of the
        body that carries the link. Raises StepFailedError, and keeps the state, if the step does
        not converge.
        """
        if self._not_ready:
            raise self._not_ready
        torque = self._command(tau)
        forces = None if wrenches is None else self._check_wrenches(wrenches)
        report = self._stepper.step(torque, forces)
        if report[0]:
            raise self._failure(report)
        self._report = report
        self._state = self._take_state(self._state.time + self.time_step)
        return self._state

    def run(
        self,
        duration: float,
        controller: Controller | JointCommand | None = None,
        progress: bool = False,
        throw: bool = True,
        viewer: Viewer | None = None,
    ) -> Trajectory:
        """round(duration / time_step) steps from the current state.

        `controller(state)` gives tau (nu,) or a JointCommand for each step; if it has a `reset()`,
        that is called first. A JointCommand in its place holds for the whole run. With
        throw=False a step that fails ends the trajectory instead of raising. A viewer, as made by
        vc.view(robot), shows the run in real time or plays it back.
        """
        if not (math.isfinite(duration) and duration >= 0.0):
            raise TimeStepError(f"the duration is {duration} s; it must be finite and not negative")
        if self._not_ready:
            raise self._not_ready
        steps = round(duration / self.time_step)
        steps_per_picture = viewer.start(self) if viewer else 0
        record = _Record(self.robot, steps)
        start = clock.perf_counter()
        first_time = self._state.time
        bar = _ProgressBar(steps) if progress else None
        if callable(controller) and hasattr(controller, "reset"):
            controller.reset()
        done, report = 0, (0, 0, 0.0, 0.0, WORLD, 1, 0, 0)
        if steps == 0:
            record.run(self._stepper, 0, 0, None)
        while done < steps and report[0] == Status.CONVERGED:
            if callable(controller):
                count, torque = 1, self._command(controller(self._state))
            else:
                most = steps_per_picture or STEPS_PER_CALL
                count, torque = min(most, steps - done), self._command(controller)
            if torque is not None:
                record.tau_command[done : done + count] = torque
            finished, report = record.run(self._stepper, done, count, torque)
            done += finished
            if finished:
                self._state = self._take_state(first_time + done * self.time_step)
            if bar:
                bar.show(done)
            due = steps_per_picture and (done % steps_per_picture == 0 or done == steps)
            if viewer and finished and due:
                viewer.show(self._state, record.last_touches(done - 1))
        if done:
            self._report = report if not report[0] else self._report
        if report[0] and throw:
            raise self._failure(report)
        trajectory = record.trajectory(
            self, done, first_time, Status(report[0]), clock.perf_counter() - start
        )
        if viewer:
            viewer.finish(trajectory)
        return trajectory

    # ------------------------------------------------------------ arguments
    def _command(self, command: ArrayLike | JointCommand | None) -> Array | None:
        """Checks what is asked of the drives, sets their servos, and returns the torques."""
        torques, servos = None, None
        if isinstance(command, JointCommand):
            torques, servos = command.torques(self.robot), command.servos(self.robot)
        elif command is not None:
            torques = self._check_tau(command)
        self._stepper.set_servos(servos)
        return torques

    def _check_tau(self, tau: ArrayLike) -> Array:
        array = np.asarray(tau, dtype=np.float64) if isinstance(tau, np.ndarray) else None
        if array is None or array.shape != (self._nu,) or not np.isfinite(array).all():
            return check_array("tau", tau, self._nu)
        return np.ascontiguousarray(array)

    def _check_wrenches(self, wrenches: Mapping[str, ArrayLike]) -> Array:
        table = np.zeros((len(self.robot.bodies), 6))
        for link, wrench in wrenches.items():
            body = self._body_of(link)
            if body == WORLD:
                raise ArrayError("wrenches", f"link '{link}' is fixed to the world")
            table[body] += check_array(f"wrenches['{link}']", wrench, 6)
        return table

    def _body_of(self, link: str) -> int:
        for i, body in enumerate(self.robot.bodies):
            if link == body.name or link in body.links:
                return i
        if link not in self.robot.link_names:
            names = [name for body in self.robot.bodies for name in body.links]
            raise LinkNotFoundError(link, names, f"robot '{self.robot.name}'")
        return WORLD

    def _failure(self, report: Report) -> StepFailedError:
        status = Status(report[0])
        body = self.robot.bodies[report[4]].name if report[4] != WORLD else ""
        half = f"{0.5 * self.time_step:g}"
        if status is Status.ROTATION:
            advice = (
                f"body '{body}' would turn by half a turn or more within {self.time_step:g} s "
                f"(limit 2 / time_step = {2.0 / self.time_step:.4g} rad/s); try time_step={half}"
            )
        elif status is Status.SINGULAR:
            advice = (
                "a joint has no inertia to move against, or a loop is singular; "
                f"try time_step={half}"
            )
        elif status is Status.NOT_FINITE:
            advice = f"a number overflowed; check the torques and try time_step={half}"
        else:
            advice = f"Newton's method did not converge; try time_step={half}"
        return StepFailedError(self._state.time, status.name, report[2], advice)


class _Record:
    """Arrays that a run fills."""

    def __init__(self, robot: Robot, steps: int) -> None:
        self.q = np.empty((steps + 1, robot.nq))
        self.v = np.empty((steps + 1, robot.nv))
        self.tau = np.zeros((steps, robot.nu))
        self.tau_command = np.zeros((steps, robot.nu))
        self.works = np.empty((steps, 6))
        self.counts = np.empty((steps, 4))
        self.touches: list[Array] = []

    def run(
        self, stepper: _core.Stepper, first: int, count: int, tau: Array | None
    ) -> tuple[int, Report]:
        nodes, steps = slice(first, first + count + 1), slice(first, first + count)
        result = stepper.run(
            count, tau, False, None, self.q[nodes], self.v[nodes], self.tau[steps],
            self.works[steps], self.counts[steps],
        )  # fmt: skip
        touches = stepper.log()
        if len(touches):
            touches[:, 0] += first
            self.touches.append(touches)
        return result

    def last_touches(self, step: int) -> Array:
        """(M, 6) rows of the contacts that touched in a step just done."""
        rows = self.touches[-1] if self.touches else np.zeros((0, 6))
        return rows[rows[:, 0] == step]

    def trajectory(
        self, sim: Simulator, done: int, first_time: float, status: Status, wall_time: float
    ) -> Trajectory:
        nodes, count = done + 1, len(sim.robot.bodies)
        q, v = self.q[:nodes].copy(), self.v[:nodes].copy()
        scalars, poses = np.empty((nodes, 9)), np.empty((nodes, count, 7))
        velocities = np.empty((nodes, count, 6))
        sim._observer.observe(q, v, scalars, poses, velocities)
        motor, external, damping, impulses, friction, impact = np.moveaxis(self.works[:done], 1, 0)
        kinetic, potential = scalars[:, 0].copy(), scalars[:, 1].copy()
        works = motor + external + damping + friction + impact
        gain: Array = impulses - works + np.diff(potential)
        change: Array = np.diff(kinetic + potential)
        time: Array = first_time + sim.time_step * np.arange(nodes, dtype=np.float64)
        ledger = Ledger(
            motor=read_only(motor.copy()),
            external=read_only(external.copy()),
            damping=read_only(damping.copy()),
            friction=read_only(friction.copy()),
            impact=read_only(impact.copy()),
            integration=read_only(gain),
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
            status=status,
            wall_time=wall_time,
            robot_path=sim.robot.path,
            robot=sim.robot,
        )

    def _contacts(self, sim: Simulator, done: int, poses: Array) -> ContactTable:
        contacts = sim.robot.contacts if sim.ground is not None else ()
        touches = np.concatenate(self.touches) if self.touches else np.zeros((0, 6))
        return ContactTable(
            names=tuple(contact.name for contact in contacts),
            bodies=read_only(np.array([float(contact.body) for contact in contacts])),
            points=read_only(np.array([contact.p_BC for contact in contacts]).reshape(-1, 3)),
            radii=read_only(np.array([contact.radius for contact in contacts])),
            plane=read_only(sim.ground.numbers[:4] if sim.ground else np.zeros(4)),
            touches=read_only(touches[touches[:, 0] < done]),
            p_WB=read_only(poses[:, :, :3].copy()),
            quat_WB_xyzw=read_only(poses[:, :, 3:].copy()),
        )


class _ProgressBar:
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


def check_time_step(time_step: float) -> float:
    """A finite time step above zero, or TimeStepError."""
    try:
        value = float(time_step)
    except (TypeError, ValueError):
        raise TimeStepError(f"the time step is {time_step!r}; it must be a number [s]") from None
    if not (math.isfinite(value) and value > 0.0):
        raise TimeStepError(f"the time step is {value} s; it must be above zero, say 0.01")
    return value


def check_options(options: SolverOptions) -> SolverOptions:
    """Options within their ranges, or OptionError."""
    for name in ("momentum_tolerance", "closure_tolerance"):
        value = getattr(options, name)
        if not (math.isfinite(value) and value > 0.0):
            raise OptionError(f"{name} is {value}; it must be above zero")
    if options.max_iterations < 1:
        raise OptionError(f"max_iterations is {options.max_iterations}; it must be at least 1")
    if not 0 <= options.max_halvings <= 10:
        raise OptionError(f"max_halvings is {options.max_halvings}; it must be from 0 to 10")
    return options
