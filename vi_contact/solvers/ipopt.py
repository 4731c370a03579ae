"""The step solved by IPOPT, as paper 002 has it: slower than the compiled step, and its reference.

The program is `vi_contact.mechanics.time_stepping`; cyipopt hands it to IPOPT with exact sparse
derivatives. What follows from a step (node velocities, the ledger, contact forces) is the compiled
stepper's work, which takes the solution as it is and measures its residual.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from vi_contact.errors import MissingSolverError
from vi_contact.mechanics.discrete_lagrangian import constraint_count
from vi_contact.mechanics.ground import Ground
from vi_contact.mechanics.time_stepping import DRIVE, WRENCH, Scales
from vi_contact.robot.maximal import MaximalState, rotation_matrices
from vi_contact.robot.parts import WORLD, Array
from vi_contact.robot.robot import Robot
from vi_contact.solvers.ipopt_options import IpoptOptions
from vi_contact.solvers.newton import SolverOptions, Status, make_stepper
from vi_contact.solvers.program import Program, interrupts_held
from vi_contact.solvers.step_program import (
    Inputs,
    Memory,
    Points,
    Selection,
    Solution,
    StepProgram,
    full_turns,
    functions_of,
    turns,
)
from vi_contact.solvers.stepper import METHODS, Report

logger = logging.getLogger("vi_contact.ipopt")

IPOPT = METHODS.index("ipopt")

LIMIT_MARGIN = 10.0
"""Limits nearer than this, in the program's unit of length, are in it; others are checked after."""

BOUNCE_THRESHOLD = 2.0
"""A contact that approaches slower than this many free falls of one step does not bounce."""

STICKS = 1.0 - 1e-6
"""A contact whose friction is below this part of the cone's radius sticks."""

MOST_SLACK = 100.0
"""Largest slack of a complementarity that counts as solved, in tolerances; IPOPT ends near one."""

MOST_ROUNDS = 10
"""Times that contacts which the guess had not foreseen may come in."""

MOST_PROGRAMS = 64
"""Programs kept, one for each set of contacts and limits."""


@dataclass(frozen=True)
class _Attempt:
    """A way to start IPOPT; where it fails the next one is tried."""

    name: str
    warm: bool
    """Impulses start from those of the last step, else from one."""
    moving: bool
    """Poses start from the last motion, else from rest."""
    options: dict[str, Any]


ATTEMPTS = (
    _Attempt("warm", True, True, {"mu_strategy": "adaptive"}),
    _Attempt("cold", False, True, {"mu_strategy": "monotone", "mu_init": 0.1}),
    _Attempt("from rest", False, False, {"mu_strategy": "adaptive"}),
)

STATUS = {0: Status.CONVERGED, -1: Status.MAX_ITERATIONS, -13: Status.NOT_FINITE}
"""Of IPOPT's codes; all others are INFEASIBLE: no point that satisfies the equations was found."""


def load_cyipopt() -> ModuleType:
    """The module, or MissingSolverError."""
    try:
        import cyipopt
    except ImportError as error:
        raise MissingSolverError("cyipopt", str(error)) from error
    its_logger = logging.getLogger("cyipopt")
    if its_logger.level == logging.NOTSET:
        its_logger.setLevel(logging.INFO)  # below it tells of every callback
    module: ModuleType = cyipopt
    return module


@dataclass(frozen=True)
class _Record:
    """Where a step writes to; see `Stepper.run`."""

    q: Array | None = None
    v: Array | None = None
    tau: Array | None = None
    works: Array | None = None
    counts: Array | None = None

    def at(self, k: int) -> _Record:
        """The part of step k."""

        def rows(array: Array | None, count: int) -> Array | None:
            return None if array is None else array[k : k + count]

        return _Record(
            rows(self.q, 2), rows(self.v, 2), rows(self.tau, 1), rows(self.works, 1),
            rows(self.counts, 1),
        )  # fmt: skip


class IpoptStepper:
    """Moves a robot by steps that IPOPT solves; `vi_contact.solvers.stepper.Stepper`."""

    def __init__(
        self,
        robot: Robot,
        time_step: float,
        gravity: Array,
        options: IpoptOptions,
        ground: Ground | None = None,
        joint_limits: bool = False,
    ) -> None:
        self._cyipopt = load_cyipopt()
        self._robot, self._h, self._options = robot, time_step, options
        self._gravity = np.array(gravity, dtype=np.float64)
        self._restitution = 0.0 if ground is None else ground.restitution
        self._books = make_stepper(
            robot, time_step, gravity, SolverOptions(max_halvings=0), ground, joint_limits
        )
        self._points = Points(robot, ground)
        self._memory = Memory(robot, self._points.count)
        one = [i for i, j in enumerate(robot.joints) if j.nv == 1] if joint_limits else []
        self._limited = [i for i in one if not robot.joints[i].continuous]
        self._rubbing = [i for i in one if robot.joints[i].friction[0] > 0.0]
        self._servos: Array | None = None
        self._programs: dict[Any, tuple[StepProgram, Any]] = {}
        self._log: list[Array] = []
        self._taken = 0
        self._error: float | None = None  # of a step that was split

    # -------------------------------------------------------------------- state
    def reset(self, q: Array, v: Array) -> None:
        """Starts from q (nq,) and v (nv,) at the node."""
        robot, memory = self._robot, self._memory
        self._books.reset(q, v)
        memory.numbers[:] = 0.0
        self._books.get_q(memory.q)
        start = robot.to_maximal(memory.q, v)
        memory.poses[:] = np.hstack([start.p_WB, start.quat_WB_xyzw])
        memory.velocities[:] = np.hstack([start.v_WB, start.w_WB_B])
        momentum = functions_of(robot).start_momentum(
            memory.poses.ravel(), memory.velocities.ravel(), v
        )
        memory.momentum[:] = momentum.full().reshape(-1, WRENCH)
        for wheel in robot.wheels:
            memory.spins[wheel.joint] = v[robot.joints[wheel.joint].idx_v]
        springs = self._books.spring_forces()
        memory.multipliers[len(memory.multipliers) - len(springs) :] = -0.5 * springs
        angle = memory.coordinates
        for i, joint in enumerate(robot.joints):
            angle[i] = robot.joint_position(memory.q, i) if joint.nv == 1 else 0.0
        for mimic in robot.mimics:  # angles without limits are known up to full turns
            if robot.joints[mimic.joint].continuous:
                wanted = mimic.multiplier * angle[mimic.source] + mimic.offset
                angle[mimic.joint] += full_turns(wanted - angle[mimic.joint])
            elif robot.joints[mimic.source].continuous:
                wanted = (angle[mimic.joint] - mimic.offset) / mimic.multiplier
                angle[mimic.source] += full_turns(wanted - angle[mimic.source])

    def state_size(self) -> int:
        """Length of the state as numbers: the compiled stepper's, then our own."""
        return self._books.state_size() + len(self._memory.numbers)

    def get_state(self, out: Array) -> None:
        """Writes the state."""
        size = self._books.state_size()
        self._books.get_state(out[:size])
        out[size:] = self._memory.numbers

    def set_state(self, state: Array) -> None:
        """Goes back to what `get_state` wrote."""
        size = self._books.state_size()
        self._books.set_state(np.ascontiguousarray(state[:size]))
        self._memory.numbers[:] = state[size:]

    def steps_taken(self) -> int:
        """Whole steps since it was made."""
        return self._taken

    def set_servos(self, servos: Array | None) -> None:
        """Servos that act from now on, rows (angle, speed, stiffness, damping) per input."""
        self._servos = servos
        self._books.set_servos(servos)

    def feedback(self, time_step: float) -> Array:
        """(nv, 3): alpha, theta and last feedback of every coordinate in a step of that length."""
        return self._books.feedback(time_step)

    def get_tau(self, tau: Array, saturated: Array) -> None:
        """Writes the torques of the last step, and 1 where they are not what was asked for."""
        self._books.get_tau(tau, saturated)

    def log(self) -> Array:
        """Rows (step, contact, force in world axes, sliding) of the last run."""
        return np.concatenate(self._log) if self._log else np.zeros((0, 6))

    def point_log(self) -> Array:
        """None: links do not meet each other here."""
        return np.zeros((0, 4))

    def gap_log(self) -> Array:
        """None: links do not meet each other here."""
        return np.zeros((0, 3))

    def error(self, v0: Array, v1: Array) -> float:
        """Estimate of the error of the last step [m or rad]; of a split one, summed over parts."""
        return self._books.error(v0, v1) if self._error is None else self._error

    # -------------------------------------------------------------------- steps
    def step(self, tau: Array | None, wrenches: Array | None) -> Report:
        """One step under tau (nu,) and wrenches (n, 6); a failed one leaves the state."""
        self._log = []
        robot = self._robot
        q, v = np.empty((2, robot.nq)), np.empty((2, robot.nv))
        self._books.run(0, None, False, None, q, v, None, None, None)
        return self._advance(tau, wrenches, _Record(q, v))

    def run(
        self,
        steps: int,
        tau: Array | None,
        tau_varies: bool,
        wrenches: Array | None,
        q: Array | None,
        v: Array | None,
        applied_tau: Array | None,
        works: Array | None,
        counts: Array | None,
    ) -> tuple[int, Report]:
        """Steps until done or failed, and records what is not None."""
        self._log = []
        record = _Record(q, v, applied_tau, works, counts)
        self._books.run(0, None, False, None, q, v, None, None, None)  # the first node
        report: Report = (0, 0, 0.0, 0.0, WORLD, 1, 0, IPOPT)
        for k in range(steps):
            torque = tau[k] if tau is not None and tau_varies else tau
            before = len(self._log)
            report = self._advance(torque, wrenches, record.at(k))
            if report[0] != Status.CONVERGED:
                return k, report
            for touches in self._log[before:]:
                touches[:, 0] = k
        return steps, report

    def _advance(self, tau: Array | None, wrenches: Array | None, record: _Record) -> Report:
        """A whole step, in halves where it must be."""
        size = self.state_size()
        saved = np.empty(size)
        self.get_state(saved)
        self._error = None
        report = self._part(tau, wrenches, record, self._h)
        if report[0] == Status.CONVERGED or self._options.max_halvings == 0:
            self._taken += report[0] == Status.CONVERGED
            return report
        logger.info("no step of %g s was found; it is taken in halves", self._h)
        logged = len(self._log)
        parts: list[Report] = []
        sums = np.zeros((1, 6))
        self._error = 0.0
        done = self._halves(tau, wrenches, record, self._h, 1, parts, sums)
        iterations = report[1] + sum(part[1] for part in parts)
        if not done:
            self.set_state(saved)
            del self._log[logged:]
            return (report[0], iterations, *report[2:])
        self._taken += 1
        last = parts[-1]
        residual, closure = max(part[2] for part in parts), last[3]
        if record.works is not None:
            record.works[:] = sums
        if record.counts is not None:
            record.counts[0] = [iterations, len(parts), last[6], IPOPT, residual, self._error]
        return (last[0], iterations, residual, closure, WORLD, len(parts), last[6], IPOPT)

    def _halves(
        self,
        tau: Array | None,
        wrenches: Array | None,
        record: _Record,
        h: float,
        depth: int,
        parts: list[Report],
        sums: Array,
    ) -> bool:
        """Two steps of half the length h, in halves where they must be; false where one fails."""
        q, v = (None if array is None else array.copy() for array in (record.q, record.v))
        works = None if record.works is None else np.zeros((1, 6))
        part = _Record(q, v, record.tau, works)
        for _ in (0, 1):
            before = len(self._log)
            report = self._part(tau, wrenches, part, 0.5 * h)
            if report[0] == Status.CONVERGED:
                parts.append(report)
                if v is not None and self._error is not None:
                    self._error += self._books.error(v[0], v[1])
                for touches in self._log[before:]:
                    touches[:, 2:5] *= 0.5 * h / self._h  # the mean over the whole step
                if works is not None:
                    sums += works
            elif depth >= self._options.max_halvings or not self._halves(
                tau, wrenches, part, 0.5 * h, depth + 1, parts, sums
            ):
                return False
            for mine, his in ((record.q, part.q), (record.v, part.v)):
                if mine is not None and his is not None:
                    mine[1] = his[1]
                    his[0] = his[1]
        return True

    def _part(self, tau: Array | None, wrenches: Array | None, record: _Record, h: float) -> Report:
        """A step of length h: IPOPT solves it, the compiled stepper takes it."""
        inputs = self._inputs(tau, wrenches, h)
        status, iterations, solution = self._solve(inputs)
        if solution is not None and self._restitution > 0.0:
            targets = self._bounces(solution, tau, wrenches, h)
            if targets.any():
                inputs = replace(inputs, targets=targets)
                status, more, solution = self._solve(inputs)
                iterations += more
        if solution is None:
            return (status, iterations, np.inf, np.inf, WORLD, 1, 0, IPOPT)
        self._books.prescribe(
            solution.q, self._row_impulses(solution), self._contact_table(solution, inputs.targets),
            self._joint_table(solution, inputs), iterations,
        )  # fmt: skip
        _, report = self._books.run(
            1, tau, False, wrenches, record.q, record.v, record.tau, record.works, record.counts, h
        )
        if report[0] == Status.CONVERGED:
            self._log.append(self._books.log())
            self._commit(solution, inputs)
            if record.counts is not None:
                record.counts[0, 3] = IPOPT
        return (*report[:-1], IPOPT)

    def _inputs(self, tau: Array | None, wrenches: Array | None, h: float) -> Inputs:
        robot, memory = self._robot, self._memory
        drives = np.zeros((robot.nv, DRIVE))
        dofs = robot.actuated_dofs
        if tau is not None:
            drives[dofs, 0] = tau
        if self._servos is not None:
            drives[dofs, 1:5] = self._servos
            for joint in robot.joints:
                if joint.nv == 1:  # the error at the left node, the shorter way without limits
                    error = drives[joint.idx_v, 1] - memory.coordinates[joint.child]
                    error -= full_turns(error) if joint.continuous else 0.0
                    drives[joint.idx_v, 1] = error
        drives[:, 5:] = self._books.feedback(h)
        bounds = np.zeros(len(robot.joints))
        for i in self._rubbing:
            # half of the step before and half of this one, which after a start is all there is
            share = 1.0 if memory.friction[i, 2] > 0.0 else 0.5
            bounds[i] = share * h * robot.joints[i].friction[0]
        forces = np.zeros((len(robot.bodies), WRENCH)) if wrenches is None else wrenches
        targets = np.zeros(self._points.count)
        rule = self._books.spring_rule(h)
        return Inputs(h, self._gravity, drives, forces, rule, targets, bounds)

    def _commit(self, solution: Solution, inputs: Inputs) -> None:
        """Momentum of the new node, and what contacts and joints remember."""
        memory, points, h = self._memory, self._points, inputs.h
        before, after = memory.poses.copy(), solution.poses
        momentum = functions_of(self._robot).end_of_step(
            h, inputs.gravity, before.ravel(), after.ravel(), inputs.drives.ravel(),
            inputs.wrenches.ravel(), h * memory.spins,
            solution.multipliers[constraint_count(self._robot) :], inputs.springs.ravel(),
        )  # fmt: skip
        R0, R1 = rotation_matrices(before[:, 3:]), rotation_matrices(after[:, 3:])
        left = solution.residual  # carried over, so that tolerances do not add up to a drift
        turned = np.einsum("nji,njk,nk->ni", R1, R0, left[:, 3:])
        memory.momentum[:] = momentum.full().reshape(-1, WRENCH)
        memory.momentum -= np.hstack([left[:, :3], turned])
        memory.velocities[:, :3] = (after[:, :3] - before[:, :3]) / h
        memory.velocities[:, 3:] = turns(before, after) * (2.0 / h)
        old = memory.coordinates.copy()
        for i, joint in enumerate(self._robot.joints):
            if joint.nv == 1:
                angle = self._robot.joint_position(solution.q, i)
                near = old[i] + h * memory.spins[i]
                around = full_turns(near - angle) if joint.continuous else 0.0
                memory.coordinates[i] = angle + around
        for wheel in self._robot.wheels:
            moved = memory.coordinates[wheel.joint] - old[wheel.joint]
            memory.spins[wheel.joint] = moved / h
        memory.multipliers[:] = solution.multipliers / h
        slips = points.slips(before, after) + memory.contacts[:, 3:]
        memory.contacts[:] = 0.0
        memory.limits[:] = 0.0
        for k, own in solution.contacts.items():
            if k in solution.closed:
                memory.contacts[k, :3] = own / [h, 1.0, 1.0]
                memory.contacts[k, 3:] = slips[k] if np.hypot(own[1], own[2]) < STICKS else 0.0
        for key, n in solution.limits.items():
            memory.limits[key] = n / h if key in solution.closed else 0.0
        for i, e in solution.friction.items():
            moved = memory.coordinates[i] - old[i] + memory.friction[i, 1]
            memory.friction[i] = [e, moved if abs(e) < STICKS else 0.0, 1.0]
        memory.q[:] = solution.q
        memory.poses[:] = after

    # -------------------------------------------------------------------- for the books
    def _row_impulses(self, solution: Solution) -> Array:
        """Of loops and mimic joints, then of springs and dampers."""
        return solution.multipliers[sum(joint.kind.rows for joint in self._robot.joints) :]

    def _contact_table(self, solution: Solution, targets: Array) -> Array:
        table, points = np.zeros((len(solution.contacts), 5)), self._points
        for row, (k, own) in zip(table, solution.contacts.items(), strict=True):
            row[0], row[4] = k, targets[k]
            row[1:4] = own[0] * (points.normal + points.mu[k] * (own[1:] @ points.tangents))
        return table

    def _joint_table(self, solution: Solution, inputs: Inputs) -> Array:
        table = np.zeros((self._robot.nv, 3))
        for (i, side), impulse in solution.limits.items():
            table[self._robot.joints[i].idx_v, side] = impulse
        for i, e in solution.friction.items():
            table[self._robot.joints[i].idx_v, 2] = e * inputs.bounds[i]
        return table

    # -------------------------------------------------------------------- one step
    def _solve(self, inputs: Inputs) -> tuple[Status, int, Solution | None]:
        """The step with all contacts and limits that matter."""
        guess = self._memory.guess(inputs.h)
        selection = self._select(guess, inputs.h)
        total = 0
        for _ in range(MOST_ROUNDS):
            status, iterations, solution = self._solve_selected(selection, inputs, guess)
            total += iterations
            if solution is None:
                return status, total, None
            if not self._add_missed(selection, solution):
                return Status.CONVERGED, total, solution
        return Status.MAX_ITERATIONS, total, None

    def _select(self, guess: Array, h: float) -> Selection:
        """Contacts and limits that may act on the way to the guess."""
        memory = self._memory
        before, after = self._points.gaps(memory.poses), self._points.gaps(guess)
        near = (np.minimum(before, after) <= np.abs(after - before)) | (memory.contacts[:, 0] > 0.0)
        limits = self._limits_within(LIMIT_MARGIN * self._scales(h).length, memory.coordinates)
        return Selection(set(np.flatnonzero(near).tolist()), limits)

    def _limits_within(self, margin: float, coordinates: Array) -> set[tuple[int, int]]:
        found = set()
        for i in self._limited:
            joint, x = self._robot.joints[i], coordinates[i]
            for side, distance in enumerate((x - joint.lower[0], joint.upper[0] - x)):
                if distance < margin:
                    found.add((i, side))
        return found

    def _add_missed(self, selection: Selection, solution: Solution) -> bool:
        """Adds what the selection lacks and the solution breaks; false if there is none."""
        contacts = set(np.flatnonzero(self._points.gaps(solution.poses) < 0.0).tolist())
        coordinates = np.zeros(len(self._robot.joints))
        for i in self._limited:
            coordinates[i] = self._robot.joint_position(solution.q, i)
        limits = self._limits_within(0.0, coordinates)
        missed = bool(contacts - selection.contacts or limits - selection.limits)
        selection.contacts |= contacts
        selection.limits |= limits
        return missed

    def _solve_selected(
        self, selection: Selection, inputs: Inputs, guess: Array
    ) -> tuple[Status, int, Solution | None]:
        """One attempt after the other."""
        step, nlp = self._program(selection)
        step.prepare(self._memory, inputs, self._scales(inputs.h))
        tolerance, total, status = self._options.tolerance, 0, Status.INFEASIBLE
        for attempt in ATTEMPTS:
            for name, value in attempt.options.items():
                nlp.add_option(name, value)
            start = step.start(guess if attempt.moving else self._memory.poses, attempt.warm)
            with interrupts_held(step.program):
                z, info = nlp.solve(start)
            code, iterations = int(info["status"]), step.program.iterations
            total += iterations
            broken, slack = step.errors(z, info["g"])
            logger.debug(
                "%s start: IPOPT ends with %d after %d iterations, rows to %.1e, slacks to %.1e",
                attempt.name, code, iterations, broken, slack,
            )  # fmt: skip
            if broken <= 10.0 * tolerance and slack <= MOST_SLACK * tolerance:
                return Status.CONVERGED, total, step.solution(z, info["g"])
            status = STATUS.get(code, Status.INFEASIBLE)
            if status is Status.CONVERGED:  # at a least sum of slacks that is not zero
                status = Status.INFEASIBLE
        logger.info("IPOPT found no step of %g s: %s", inputs.h, info["status_msg"].decode())
        return status, total, None

    def _scales(self, h: float) -> Scales:
        """From free fall, or from the motion of the last step where that is faster."""
        fall = max(float(np.linalg.norm(self._gravity)), 1.0) * h
        speed = max(fall, float(np.abs(self._memory.velocities[:, :3]).max(initial=0.0)))
        options = self._options
        return Scales(
            h, max(self._robot.mass, 1e-6) * speed, speed * h, options.smoothing, options.tolerance
        )

    def _program(self, selection: Selection) -> tuple[StepProgram, Any]:
        """Built once for each set of contacts and limits, with IPOPT's problem."""
        key = selection.key
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.clear()
            step = StepProgram(
                self._robot, self._points, self._rubbing, selection, self._options.regularisation
            )
            self._programs[key] = step, self._problem(step.program)
        return self._programs[key]

    def _problem(self, program: Program) -> Any:
        """A program in IPOPT's hands."""
        nlp = self._cyipopt.Problem(
            n=program.size, m=program.row_count, problem_obj=program, lb=program.lower,
            ub=np.full(program.size, np.inf), cl=np.zeros(program.row_count),
            cu=program.upper_rows,
        )  # fmt: skip
        for name, value in self._settings.items():
            nlp.add_option(name, value)
        return nlp

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """IPOPT's options: our own scaling, bounds as they are, no output."""
        tolerance = self._options.tolerance
        return {
            "tol": tolerance, "constr_viol_tol": tolerance, "compl_inf_tol": tolerance,
            "dual_inf_tol": 1e-4, "acceptable_iter": 0, "max_iter": self._options.max_iterations,
            "mu_min": 0.01 * tolerance, "bound_relax_factor": 0.0, "nlp_scaling_method": "none",
            "print_level": 0, "sb": "yes",
        }  # fmt: skip

    def _bounces(
        self, solution: Solution, tau: Array | None, wrenches: Array | None, h: float
    ) -> Array:
        """(contacts,) gap to reach, for those that close and come fast.

        g(q1) >= g0 + h (w - h a / 2) with w^2 = e^2 (u^2 + 2 a g0) - 2 a g0, u the normal velocity
        at the left node and a the acceleration towards the ground, held by nothing.
        """
        points, memory = self._points, self._memory
        v = np.empty(self._robot.nv)
        self._books.get_v(v)
        moves = self._robot.to_maximal(memory.q, v)
        rates = self._robot.to_maximal(memory.q, self._books.free_acceleration(v, tau, wrenches))
        gaps, targets = points.gaps(memory.poses), np.zeros(points.count)
        slowest = BOUNCE_THRESHOLD * float(np.linalg.norm(self._gravity)) * h

        def along_normal(state: MaximalState, k: int) -> float:
            body = points.bodies[k]
            spin = np.cross(state.w_WB_B[body], points.p_BC[k])
            R_WB = rotation_matrices(state.quat_WB_xyzw[body])
            return float(points.normal @ (state.v_WB[body] + R_WB @ spin))

        for k in solution.contacts:
            u = along_normal(moves, k)
            comes = k in solution.closed and not memory.contacts[k, 0] > 0.0
            if comes and u < -slowest:
                pull = -along_normal(rates, k)
                fall = 2.0 * pull * gaps[k]
                w = np.sqrt(max(0.0, self._restitution**2 * (u * u + fall) - fall))
                targets[k] = max(0.0, gaps[k] + h * (w - 0.5 * h * pull))
        return targets
