"""The simulator: a robot, a time step, and the state it is in."""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import (
    ArgumentError,
    ArrayError,
    CopyError,
    ImmutableError,
    JointLimitError,
    LinkNotFoundError,
    ObstacleError,
    OpenLoopError,
    OptionError,
    OverlapError,
    PenetrationError,
    PlacementError,
    RotationTooFastError,
    RunningError,
    StepFailedError,
    TimeStepError,
    ZenoError,
    nearest,
)
from vi_contact.mechanics.ground import Ground
from vi_contact.robot import closure
from vi_contact.robot.maximal import check_array, is_number
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.pairs import BodyPairs, SelfCollision, find_pairs
from vi_contact.robot.parts import WORLD, Array, read_only, shown
from vi_contact.robot.robot import Robot
from vi_contact.simulation.command import JointCommand, StepFunction
from vi_contact.simulation.contact_laws import ContactLaw
from vi_contact.simulation.events import MOST_EVENTS, Event
from vi_contact.simulation.hybrid import Drive, HybridMotion, Log, Node, node_problem
from vi_contact.simulation.record import ProgressBar, Record, check_room
from vi_contact.simulation.snapshot import Setting, Snapshot
from vi_contact.simulation.state import State
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.simulation.viewing import Viewer
from vi_contact.solvers.ipopt_options import IpoptOptions
from vi_contact.solvers.newton import SolverOptions, Status, make_stepper
from vi_contact.solvers.stepper import METHODS, Report, Stepper

Controller = Callable[[State], ArrayLike | JointCommand]

_log = logging.getLogger("vi_contact")

MAX_TURN = 0.5 * math.pi
"""Largest `SolverOptions.max_turn` [rad]: beyond, the momentum of a turn falls with its speed."""

OPEN_LOOP_TOLERANCE = 1e-8
"""Largest loop error of a start [m or rad]; the first step closes it, at 1e-6 m/s in 10 ms."""

PENETRATION_TOLERANCE = 1e-6
"""Deepest contact of a start [m]; the first step lifts it, at 1e-4 m/s in 10 ms."""

LIMIT_TOLERANCE = 1e-6
"""Farthest that a joint may start beyond its limit [rad or m]; the first step moves it back."""

EXACT_MOMENTUM = 1e-12
"""With events, largest momentum residual of a first try [N s]; the rest of a small robot's digits.
"""

EXACT_CLOSURE = 1e-16
"""With events, largest loop error of a first try [m or rad]: the step's own round-off.

1e-14 m in the place of a foot, over 0.1 ms and for 40 kg, would be 4e-9 N s in its force, and
1e-9 s in the time of its release.
"""

SOLVERS = ("newton", "ipopt")

CLOSED_CONTACT_SIZE = 30
"""Numbers that a closed contact of two bodies takes in the state of the compiled step."""

STEPS_PER_CALL = 10_000
"""Longest compiled call, so that the progress bar moves; Ctrl-C ends it at once."""


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
    """Smaller steps that it took; more than one if the step as a whole did not converge, or a body
    would have turned by more than `SolverOptions.max_turn`."""
    error: float
    """Estimate of its error [m or rad]: the largest difference between the way that a coordinate
    went and that of the mean of its velocities before and after. In smooth motion of the order of
    the scheme's own error, in time_step^3; of a step in parts, the sum over these. NaN before the
    first step."""
    contacts: int
    """Closed contacts."""
    method: str
    """What solved it: "newton", or behind it "sweeps" or "interior point"; or "ipopt"."""
    saturated: tuple[str, ...]
    """Joints whose drive gave less than was asked for."""


class Simulator:
    """Moves a robot in time by a variational integrator.

    Forces: gravity, joint torques within effort, velocity and motor limits, joint damping, springs,
    external wrenches; loops and mimic joints are held. Contacts with the ground are hard and
    inelastic unless it has restitution, with Coulomb friction. Joints stop at their limits and have
    Coulomb friction; joint_limits=False leaves out both.

    A drive fades to zero over the last tenth before its velocity limit; the voltage and current of
    a motor limit it, too, at the mean speed of each step.

    With `contact`, an ElasticContact or PlasticContact, contacts with the ground are event-driven:
    their times are solved for and the law says what happens; friction and restitution of the ground
    then do not count. `events` end steps where their guards cross zero. Either way the motion comes
    back to the time grid, and trajectories have nodes at the events, too.

    Settings are read once: to assign to one is an error, and to start or run after a change of
    `robot.model` too. Another simulator with other settings can go on from `snapshot()`.

    The same step is solved by the compiled Newton method, or with solver="ipopt" by IPOPT, which
    takes `vc.IpoptOptions`.
    """

    def __init__(
        self,
        robot: Robot,
        time_step: float = 0.01,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        options: SolverOptions | IpoptOptions | None = None,
        ground: Ground | None = Ground(),  # noqa: B008 - immutable
        joint_limits: bool = True,
        contact: ContactLaw | None = None,
        events: Sequence[Event] | Event = (),
        solver: str = "newton",
        obstacles: Sequence[Obstacle] | Obstacle = (),
        self_collision: SelfCollision = False,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentError(
                "robot", robot, "what vc.load_robot(path) or vc.from_pinocchio(model) gives"
            )
        if not isinstance(ground, Ground | None):
            raise ArgumentError("ground", ground, "vc.Ground(friction, ...), or None for no ground")
        robot.check_model()
        self.robot = robot
        self.obstacles = check_obstacles(obstacles)
        self.self_collision = self_collision
        self.body_pairs = find_pairs(
            robot, self.obstacles, self_collision, ground.friction if ground else Ground().friction
        )
        self.ground = ground
        self.joint_limits = joint_limits
        self.time_step = check_time_step(time_step)
        self.gravity = read_only(check_array("gravity", gravity, 3))
        self.solver = solver
        parts = (robot, self.time_step, self.gravity)
        own = (ground, joint_limits, self.body_pairs)
        self.options, self._stepper = _solver(solver, parts, options, *own)
        compiled = self.options if isinstance(self.options, SolverOptions) else SolverOptions()
        self._observer = make_stepper(*parts, compiled, *own)
        self.contact = contact
        self.events = check_events(events)
        event_driven = contact is not None or self.events
        if solver != "newton" and event_driven:
            raise OptionError(f"solver={solver!r} has no contact laws and events; use 'newton'")
        self._hybrid = self._make_hybrid(compiled) if event_driven else None
        self._nu = robot.nu
        self._size = (self._hybrid.stepper(()) if self._hybrid else self._stepper).state_size()
        self._names = [
            joint.name for joint in robot.joints if joint.actuated for _ in range(joint.nv)
        ]
        self._report = (0, 0, 0.0, 0.0, WORLD, 1, 0, 0)
        self._not_ready: PenetrationError | None = None
        self._before: State | None = None
        self._error = math.nan
        self._moves = False
        self._made = True
        try:
            self.reset()
        except PenetrationError as error:  # a fixed robot that reaches into the ground
            self._begin(robot.neutral(), np.zeros(robot.nv), 0.0)
            self._not_ready = error

    def __setattr__(self, name: str, value: object) -> None:
        if name[0] != "_" and "_made" in self.__dict__:
            raise ImmutableError(self._advice(name, value))
        object.__setattr__(self, name, value)

    def _advice(self, name: str, value: object) -> str:
        """What to do instead of assigning to an attribute."""
        if name in ("state", "info"):
            return (
                f"{name} of a simulator cannot be set; sim.reset(q, v) starts from another state, "
                "sim.restore(snapshot) from one that was kept"
            )
        settings = list(inspect.signature(type(self)).parameters)
        if name not in settings:
            return f"{name} is no setting of a simulator; {nearest(name, settings)}"
        given = f"robot, {name}={shown(value)}" if name != "robot" else "robot, ..."
        then = (
            ", which can go on from sim.snapshot() by its restore(snapshot)"
            if name in ("time_step", "gravity", "options", "ground")
            else ""
        )
        return (
            f"{name} of a simulator cannot be set once it is made; make another one by "
            f"vc.Simulator({given}){then}"
        )

    def __repr__(self) -> str:
        obstacles = ", ".join(obstacle.name for obstacle in self.obstacles)
        return (
            f"Simulator('{self.robot.name}', time_step={self.time_step:g}, ground={self.ground}, "
            f"solver={self.solver!r}{f', obstacles: {obstacles}' if obstacles else ''}; "
            f"at t = {self._state.time:.6g} s)"
        )

    def __reduce__(self) -> NoReturn:
        raise CopyError(
            "a Simulator holds compiled work space and can be neither copied nor pickled: make "
            "another one by vc.Simulator(robot, ...) and give it sim.snapshot() by its "
            "restore(snapshot); robots, states, snapshots and trajectories can be pickled"
        )

    def _make_hybrid(self, options: SolverOptions) -> HybridMotion:
        if self.body_pairs:
            raise OptionError(
                "bodies meet obstacles and each other by time stepping only; leave out contact and "
                f"events, or keep apart {', '.join(self.body_pairs.names[:3])}"
            )
        if self.contact is not None and not isinstance(self.contact, ContactLaw):
            raise ArgumentError("contact", self.contact, "None, ElasticContact, PlasticContact")
        ground = self.ground if self.contact is None else None
        exact = replace(
            options,
            momentum_tolerance=min(options.momentum_tolerance, EXACT_MOMENTUM),
            closure_tolerance=EXACT_CLOSURE,
            max_halvings=0,
        )
        return HybridMotion(
            self.robot,
            self.time_step,
            self.gravity,
            self.ground,
            lambda robot, solve_exactly: make_stepper(
                robot,
                self.time_step,
                self.gravity,
                exact if solve_exactly else options,
                ground,
                self.joint_limits,
            ),
            self._check_start,
            self._failure,
            self.contact,
            self.events,
        )

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
        (self._hybrid.stepper(self._node.held) if self._hybrid else self._stepper).get_tau(
            applied, saturated
        )
        names = tuple(name for name, on in zip(self._names, saturated, strict=True) if on)
        if self._before is not None:  # of sim.step, which need not compute velocities
            self._error = self._stepper.error(self._before.v, self._state.v)
            self._before = None
        return StepInfo(
            Status(status), iterations, residual, closure_error, parts, self._error, contacts,
            METHODS[method], names,
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
        self._check_rest("reset")
        self.robot.check_model()
        first_time = check_seconds("the start time", time)
        start, velocity = self._check_start(q, v)
        self._begin(start, velocity, first_time)
        self._not_ready = None
        self._before, self._error = None, math.nan
        return self._state

    def _begin(self, q: Array, v: Array, time: float) -> None:
        if self._hybrid is not None:
            self._node = self._hybrid.start(q, v, time)
            self._state = self._node.state
        else:
            self._stepper.reset(q, v)
            self._state = self._take_state(time)

    @property
    def _farthest(self) -> float:
        """Farthest turn of a body in a step and its halves [rad]."""
        options = self.options
        turn = (options if isinstance(options, SolverOptions) else SolverOptions).max_turn
        return turn * 2.0**options.max_halvings

    def _check_start(self, q: ArrayLike | None, v: ArrayLike | None) -> tuple[Array, Array]:
        """q and v of a start, checked: loops closed, above the ground, not too fast."""
        robot = self.robot
        start = self._standard_start() if q is None else robot.check_q(q)
        velocity = np.zeros(robot.nv) if v is None else robot.check_v(v)
        if robot.loops or robot.mimics:
            self._check_closed(start)
        self._observer.reset(start, velocity)
        self._check_inside(start)
        speed, body = self._observer.fastest_rotation(velocity)
        fastest = self._farthest / self.time_step
        if speed > fastest:
            raise RotationTooFastError(robot.bodies[body].name, speed, fastest, self.time_step)
        return start, velocity

    def _standard_start(self) -> Array:
        """The neutral configuration; a base that is free or on a vertical slide is lifted."""
        q = self.robot.neutral()
        self._observer.reset(q, np.zeros(self.robot.nv))
        depth, _ = self._observer.deepest_contact()
        if self.ground is None or depth <= 0.0:
            return q
        with contextlib.suppress(PlacementError):  # neither free nor on a vertical slide
            return self.robot.on_ground(q, self.ground.height, self.ground.normal)
        return q

    @cached_property
    def _setting(self) -> Setting:
        robot, ground = self.robot, self.ground is not None
        return Setting(
            robot=robot.name,
            joints=robot.joint_names,
            contacts=robot.contact_names if ground else (),
            ground=ground,
            pairs=self.body_pairs.names,
            contact="None" if self.contact is None else f"{type(self.contact).__name__}()",
            events=bool(self.events),
            solver=self.solver,
        )

    def snapshot(self) -> Snapshot:
        """The whole state with the warm start, for `restore`."""
        if self._not_ready:
            raise self._not_ready
        node = self._node if self._hybrid is not None else None
        return Snapshot(self._state.time, self._state._numbers, node, self._setting)

    def restore(self, snapshot: Snapshot) -> State:
        """Goes back to a snapshot; what follows is the same, bit for bit.

        It may be one of another simulator of the same robot with the same kind of ground, contact
        and solver and the same obstacles; with another time step, gravity or friction the motion
        goes on from there by these.
        """
        self._check_rest("restore")
        if not isinstance(snapshot, Snapshot):
            raise ArgumentError("snapshot", snapshot, "what sim.snapshot() gave")
        if snapshot.setting is not None:
            self._setting.check(snapshot.setting)
        if not is_number(snapshot.time):
            raise ArrayError("snapshot", f"its time is {snapshot.time!r}; it must be a number [s]")
        if not self._is_state(snapshot.numbers) or (snapshot.node is None) != (
            self._hybrid is None
        ):
            raise ArrayError(
                "snapshot", "it is of another robot, or of a simulator made in another way"
            )
        if self._hybrid is not None:
            node = self._check_node(self._hybrid, snapshot.node)
            self._node, self._state = node, node.state
        else:
            self._set_numbers(self._stepper, snapshot.numbers)
            self._state = State(self.robot, self._observer, snapshot.time, snapshot.numbers)
        self._not_ready = None
        return self._state

    def _is_state(self, numbers: object) -> bool:
        """Whether a state has the right length, which grows with closed contacts of bodies."""
        if not isinstance(numbers, np.ndarray) or numbers.dtype != np.float64 or numbers.ndim != 1:
            return False
        if not self.body_pairs or len(numbers) < self._size:
            return len(numbers) == self._size
        return bool(len(numbers) == self._size + CLOSED_CONTACT_SIZE * numbers[self._size - 1])

    def _set_numbers(self, stepper: Stepper, numbers: Array) -> None:
        """Puts a stepper into a state that need not be one; if it is none, into the present one."""
        try:
            stepper.set_state(np.ascontiguousarray(numbers))
        except ValueError as error:
            raise ArrayError("snapshot", f"it is no state of this robot: {error}") from None

    def _check_node(self, hybrid: HybridMotion, node: object) -> Node:
        """A node of this robot, contacts and events, its state one that can be asked."""
        problem = node_problem(node, len(hybrid.contacts), len(self.events))
        if problem:
            raise ArrayError("snapshot", f"its node is none of this simulator: {problem}")
        assert isinstance(node, Node)
        numbers: Array = vars(node.state).get("_numbers", np.zeros(0))
        if not self._is_state(numbers):
            raise ArrayError("snapshot", "the state of its node is of another robot")
        stepper = hybrid.stepper(node.held)
        self._set_numbers(stepper, numbers)
        if vars(node.state).get("_robot") is self.robot:
            return node
        return node._replace(state=State(self.robot, stepper, node.time, numbers))

    def _take_state(self, time: float) -> State:
        numbers = np.empty(self._stepper.state_size())
        self._stepper.get_state(numbers)
        return State(self.robot, self._observer, time, numbers)

    def _check_inside(self, q: Array) -> None:
        """No contact below the ground, no joint beyond its limits."""
        depth, contact = self._observer.deepest_contact()
        if depth > PENETRATION_TOLERANCE:
            name = self.robot.contact_names[contact]
            raise PenetrationError(self.robot.name, name, depth, self._way_up(q))
        for pair, gap in self._observer.body_gaps() if self.body_pairs else ():
            if gap < -PENETRATION_TOLERANCE:
                raise OverlapError(self.robot.name, self.body_pairs.names[pair], -gap)
        for k, joint in enumerate(self.robot.joints if self.joint_limits else ()):
            if joint.nv != 1 or joint.continuous:
                continue
            value, lower, upper = float(q[joint.idx_q]), joint.lower[0], joint.upper[0]
            if not lower - LIMIT_TOLERANCE <= value <= upper + LIMIT_TOLERANCE:
                advice = "move it inside, as robot.neutral() does"
                if k in closure.beyond_limits(self.robot, self.robot.neutral()):
                    advice = (
                        "robot.neutral() found no closed configuration inside: widen the limits of "
                        f"'{joint.name}' in the file, or use joint_limits=False"
                    )
                raise JointLimitError(self.robot.name, joint.name, value, lower, upper, advice)

    def _way_up(self, q: Array) -> str:
        """What to do about a contact below the ground."""
        assert self.ground is not None
        try:
            self.robot.on_ground(q, self.ground.height, self.ground.normal)
        except PlacementError:
            return "change its configuration, lower the ground or use ground=None"
        flat = self.ground.height == 0.0 and self.ground.unit_normal[2] == 1.0
        where = "" if flat else ", sim.ground.height, sim.ground.normal"
        return f"start from robot.on_ground(q{where}), lower the ground or use ground=None"

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
        not converge; after Ctrl-C, too, the state is that before the step.
        """
        self._check_rest("step")
        if self._not_ready:
            raise self._not_ready
        forces = None if wrenches is None else self._check_wrenches(wrenches)
        if self._hybrid is not None:
            end = self._state.time + self.time_step
            with self._moving():
                self._advance(self._hybrid, end, self._drive(tau), forces)
            return self._state
        torque = self._command(tau)
        try:
            report = self._stepper.step(torque, forces)
            if report[0]:
                raise self._failure(report)
            state = self._take_state(self._state.time + self.time_step)
        except BaseException:  # Ctrl-C, too
            self._stepper.set_state(self._state._numbers)
            raise
        fields = self.__dict__  # without the check of assignments, once per step
        fields["_report"], fields["_before"], fields["_state"] = report, self._state, state
        return state

    def run(
        self,
        duration: float,
        controller: Controller | JointCommand | StepFunction | None = None,
        progress: bool = False,
        throw: bool = True,
        viewer: Viewer | None = None,
        wrenches: Mapping[str, ArrayLike] | None = None,
    ) -> Trajectory:
        """round(duration / time_step) steps from the current state.

        `controller(state)` gives tau (nu,) or a JointCommand for each step; if it has a `reset()`,
        that is called first. A JointCommand in its place holds for the whole run, a StepFunction
        gives torques as a function of time. With throw=False a step that fails, or events without
        end, end the trajectory instead of raising, and its status says so; a terminal event ends
        it, too. A viewer, as made by vc.view(robot), shows the run in real time or plays it back.
        Wrenches, as in `step`, act all the time. Ctrl-C, or an error of a controller, leaves the
        simulator after the last whole step.
        """
        self._check_rest("run")
        self.robot.check_model()
        with self._moving():
            return self._run(duration, controller, progress, throw, viewer, wrenches)

    @contextlib.contextmanager
    def _moving(self) -> Iterator[None]:
        """While controllers, guards and viewers are called: they may look, but not move it."""
        self._moves = True
        try:
            yield
        except BaseException:  # Ctrl-C, or an error of theirs: go on from the state that is known
            if self._hybrid is not None:
                self.__dict__["_state"] = self._node.state
            else:
                self._stepper.set_state(self._state._numbers)
            raise
        finally:
            self._moves = False

    def _check_rest(self, call: str) -> None:
        if self._moves:
            raise RunningError(
                f"sim.{call} was called while the simulator moves, as by its own controller or "
                "event: these get the state and give torques or numbers. To look ahead, restore "
                "sim.snapshot() in a second vc.Simulator(robot, ...)"
            )

    def _run(
        self,
        duration: float,
        controller: Controller | JointCommand | StepFunction | None,
        progress: bool,
        throw: bool,
        viewer: Viewer | None,
        wrenches: Mapping[str, ArrayLike] | None,
    ) -> Trajectory:
        if check_seconds("the duration", duration) < 0.0:
            raise TimeStepError(f"the duration is {duration} s; it must not be negative")
        if self._not_ready:
            raise self._not_ready
        steps = round(duration / self.time_step)
        forces = None if wrenches is None else self._check_wrenches(wrenches)
        if viewer is not None and not hasattr(viewer, "start"):
            raise ArgumentError("viewer", viewer, "what vc.view(robot) gives, or None")
        steps_per_picture = viewer.start(self) if viewer else 0
        if self._hybrid is not None:
            shown = (viewer, steps_per_picture) if viewer and steps_per_picture else None
            trajectory = self._run_hybrid(
                self._hybrid, steps, controller, progress, throw, shown, forces
            )
            if viewer:
                viewer.finish(trajectory)
            return trajectory
        check_room(self.robot, steps)
        record = Record(self.robot, steps, bool(self.body_pairs))
        start = clock.perf_counter()
        first_time = self._state.time
        bar = ProgressBar(steps) if progress else None
        if callable(controller) and hasattr(controller, "reset"):
            controller.reset()
        done, report = 0, (0, 0, 0.0, 0.0, WORLD, 1, 0, 0)
        if steps == 0:
            record.run(self._stepper, 0, 0, None, None)
        while done < steps and report[0] == Status.CONVERGED:
            if callable(controller):
                count, torque = 1, self._command(controller(self._state))
            elif isinstance(controller, StepFunction):
                begin, end = (first_time + k * self.time_step for k in (done, done + 1))
                value = controller.over(begin, self.time_step, end)
                count, torque = 1, self._command(value)
            else:
                most = steps_per_picture or (STEPS_PER_CALL if self.solver == "newton" else 1)
                moves = isinstance(controller, JointCommand) and controller.moves
                count, torque = 1 if moves else min(most, steps - done), self._command(controller)
            if torque is not None:
                record.tau_command[done : done + count] = torque
            taken = self._stepper.steps_taken()
            try:
                _, report = record.run(self._stepper, done, count, torque, forces)
            finally:  # after Ctrl-C, too, keep the steps that are whole
                whole = self._stepper.steps_taken() - taken
                done += whole
                if whole:
                    self.__dict__["_state"] = self._take_state(first_time + done * self.time_step)
            if bar:
                bar.show(done)
            due = steps_per_picture and (done % steps_per_picture == 0 or done == steps)
            if viewer and whole and due:
                viewer.show(self._state, *record.last_touches(done - 1))
        if done:
            self._report = report if not report[0] else self._report
            self._before, self._error = None, float(record.counts[done - 1, 5])
        if report[0] and throw:
            raise self._failure(report)
        trajectory = record.trajectory(
            self, done, first_time, Status(report[0]), clock.perf_counter() - start
        )
        if viewer:
            viewer.finish(trajectory)
        return trajectory

    def _advance(
        self,
        hybrid: HybridMotion,
        end: float,
        drive: Drive,
        wrenches: Array | None,
        throw: bool = True,
    ) -> tuple[Log, bool]:
        """To the next point of the time grid through all events before it."""
        node, log, stop = hybrid.advance(self._node, end, drive, wrenches)
        if log.endless and throw:
            raise ZenoError(node.time, self.time_step, MOST_EVENTS, log.endless)
        self._node, self._state = node, node.state
        if log.parts:
            self._report = log.parts[-1].report
            self._error = float(log.parts[-1].counts[5])
        return log, stop

    def _run_hybrid(
        self,
        hybrid: HybridMotion,
        steps: int,
        controller: Controller | JointCommand | StepFunction | None,
        progress: bool,
        throw: bool,
        shown: tuple[Viewer, int] | None,
        wrenches: Array | None,
    ) -> Trajectory:
        start, first = clock.perf_counter(), self._state
        log, bar = Log(first.q, first.v), ProgressBar(steps) if progress else None
        if callable(controller) and hasattr(controller, "reset"):
            controller.reset()
        status, stop, done = Status.CONVERGED, False, 0
        while done < steps and not stop:
            end, drive = first.time + (done + 1) * self.time_step, self._drive(controller)
            try:
                more, stop = self._advance(hybrid, end, drive, wrenches, throw)
            except StepFailedError as error:
                if throw:
                    raise
                status, stop = Status[error.status], True
                continue
            log.extend(more)
            done += 1
            if more.endless:
                status = Status.ZENO
            if shown and done % shown[1] == 0 and more.parts:
                touches = more.parts[-1].touches
                rows = np.insert(touches, 0, done - 1.0, axis=1)
                shown[0].show(self._state, rows, np.zeros((0, 3)))
            if bar:
                bar.show(done)
        return Record.of_log(self.robot, log).trajectory(
            self,
            len(log.parts),
            first.time,
            status,
            clock.perf_counter() - start,
            log,
        )

    def _drive(
        self, controller: Controller | ArrayLike | JointCommand | StepFunction | None
    ) -> Drive:
        """What the drives are asked for: functions of time anew over every part, all else once."""
        if isinstance(controller, StepFunction):
            return lambda stepper, start, length, end: self._read_command(
                controller.over(start, length, end), stepper, start, length
            )
        given = controller(self._state) if callable(controller) else controller
        assert self._hybrid is not None
        stepper = self._hybrid.stepper(self._node.held)
        once = self._read_command(given, stepper, self._state.time, self.time_step)
        if isinstance(given, JointCommand) and given.moves:
            return lambda stepper, start, length, end: given.over(
                self.robot, stepper, start, length
            )
        return lambda *_: once

    # ------------------------------------------------------------ arguments
    def _command(self, command: ArrayLike | JointCommand | None) -> Array | None:
        """Checks what is asked of the drives, sets their servos, and returns the torques."""
        torques, servos = self._read_command(
            command, self._stepper, self._state.time, self.time_step
        )
        self._stepper.set_servos(servos)
        return torques

    def _read_command(
        self,
        command: ArrayLike | JointCommand | None,
        stepper: Stepper,
        start: float,
        length: float,
    ) -> tuple[Array | None, Array | None]:
        """Torques (nu,) and servos (nu, 4) that a controller asks for; checked."""
        if isinstance(command, JointCommand):
            return command.over(self.robot, stepper, start, length)
        return None if command is None else self._check_tau(command), None

    def _check_tau(self, tau: ArrayLike) -> Array:
        array = np.asarray(tau, dtype=np.float64) if isinstance(tau, np.ndarray) else None
        if array is None or array.shape != (self._nu,) or not np.isfinite(array).all():
            return check_array("tau", tau, self._nu)
        return np.ascontiguousarray(array)

    def _check_wrenches(self, wrenches: Mapping[str, ArrayLike]) -> Array:
        if not isinstance(wrenches, Mapping):
            raise ArgumentError(
                "wrenches", wrenches, 'a dict from links to force and torque: {"base": (6,)}'
            )
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
                f"body '{body}' turns too fast for a step of {self.time_step:g} s and its halves, "
                f"which follow {self._farthest / self.time_step:.4g} rad/s; try time_step={half}"
            )
        elif status is Status.SINGULAR:
            what = f"the joint of body '{body}' has" if body else "loops or a joint have"
            advice = (
                f"{what} no inertia to move against in this configuration, at any time step; "
                "give light links their inertia, the joint an armature, or start from another "
                "configuration"
            )
        elif status is Status.NOT_FINITE:
            advice = f"a number overflowed; check the torques and try time_step={half}"
        elif status is Status.WORK_LIMIT:
            advice = (
                "it took more iterations, in all its parts, than a step may: forces or speeds are "
                "too large for this step, or the contacts cannot be solved; check gravity, torques "
                f"and units, and try time_step={half}"
            )
        elif self.solver == "ipopt":
            advice = (
                f"IPOPT found no solution; try time_step={half}, a larger tolerance in "
                'IpoptOptions, or solver="newton"; the logger vi_contact.ipopt tells more'
            )
        else:
            advice = f"Newton's method did not converge; try time_step={half}"
        return StepFailedError(self._state.time, status.name, report[2], advice)


Item = TypeVar("Item", Event, Obstacle)


def _listed(name: str, kind: type[Item], given: Sequence[Item] | Item) -> tuple[Item, ...]:
    """Things of one kind; a single one need not be in a list."""
    listed = tuple(given) if isinstance(given, Iterable) else (given,)
    for item in listed:
        if not isinstance(item, kind):
            raise ArgumentError(name, item, f"a vc.{kind.__name__}, or a list of them")
    return listed


def check_events(events: Sequence[Event] | Event) -> tuple[Event, ...]:
    """Events, or an error."""
    return _listed("events", Event, events)


def check_obstacles(obstacles: Sequence[Obstacle] | Obstacle) -> tuple[Obstacle, ...]:
    """Obstacles of different names, or an error."""
    listed = _listed("obstacles", Obstacle, obstacles)
    names = [obstacle.name for obstacle in listed]
    for name in names:
        if names.count(name) > 1:
            raise ObstacleError(f"two obstacles are called '{name}'; give each its own name")
    return listed


def check_seconds(what: str, value: float) -> float:
    """A finite number, or TimeStepError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TimeStepError(f"{what} is {value!r}; it must be a number [s]") from None
    if not math.isfinite(number):
        raise TimeStepError(f"{what} is {number} s; it must be finite")
    return number


def check_time_step(time_step: float) -> float:
    """A finite time step above zero, or TimeStepError."""
    value = check_seconds("the time step", time_step)
    if value <= 0.0:
        raise TimeStepError(f"the time step is {value} s; it must be above zero, say 0.01")
    return value


def _solver(
    solver: str,
    parts: tuple[Robot, float, Array],
    options: SolverOptions | IpoptOptions | None,
    ground: Ground | None,
    joint_limits: bool,
    body_pairs: BodyPairs,
) -> tuple[SolverOptions | IpoptOptions, Stepper]:
    """The named solver with its options, or those that it has without any."""
    if solver not in SOLVERS:
        raise OptionError(f"there is no solver {solver!r}; solvers are {', '.join(SOLVERS)}")
    if solver == "newton":
        given = SolverOptions() if options is None else options
        if not isinstance(given, SolverOptions):
            raise OptionError(f"solver='newton' takes vc.SolverOptions, not {given!r}")
        check_options(given)
        return given, make_stepper(*parts, given, ground, joint_limits, body_pairs)
    if body_pairs:
        raise OptionError(f"solver={solver!r} meets the ground only; use 'newton'")
    wheels = {wheel.joint for wheel in parts[0].wheels} if ground else set()
    rolling = [c.name for c in parts[0].contacts if c.body in wheels and c.radius > 0.0]
    if wheels and rolling:
        raise OptionError(
            f"solver={solver!r} does not roll wheels, such as that of contact '{rolling[0]}'; use "
            "'newton'"
        )
    from vi_contact.solvers.ipopt import IpoptStepper

    asked = IpoptOptions() if options is None else options
    if not isinstance(asked, IpoptOptions):
        raise OptionError(f"solver='ipopt' takes vc.IpoptOptions, not {asked!r}")
    return asked, IpoptStepper(*parts, asked, ground, joint_limits)


def check_options(options: SolverOptions) -> SolverOptions:
    """Options within their ranges, or OptionError."""
    for name in ("momentum_tolerance", "closure_tolerance", "contact_tolerance"):
        value = getattr(options, name)
        if not (is_number(value) and value > 0.0):
            raise OptionError(f"{name} is {value!r}; it must be above zero")
    if not (is_number(options.velocity_tolerance) and options.velocity_tolerance >= 0.0):
        raise OptionError(
            f"velocity_tolerance is {options.velocity_tolerance!r}; it must not be negative"
        )
    if not (is_number(options.max_turn) and 0.0 < options.max_turn <= MAX_TURN):
        raise OptionError(
            f"max_turn is {options.max_turn!r}; it must be above zero and at most a quarter turn, "
            "pi / 2: beyond that momentum falls with speed"
        )
    if not (isinstance(options.error_tolerance, Real) and options.error_tolerance > 0.0):
        raise OptionError(
            f"error_tolerance is {options.error_tolerance!r}; it must be above zero, or math.inf"
        )
    if not (isinstance(options.max_iterations, Integral) and options.max_iterations >= 1):
        raise OptionError(f"max_iterations is {options.max_iterations!r}; it must be at least 1")
    if not (isinstance(options.max_halvings, Integral) and 0 <= options.max_halvings <= 10):
        raise OptionError(f"max_halvings is {options.max_halvings!r}; it must be from 0 to 10")
    return options
