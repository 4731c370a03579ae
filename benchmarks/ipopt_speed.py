"""CPU time per step of IPOPT beside the compiled step, from the same states, in one run.

Robots fall on their feet and stand, held by servos, at h = 0.01 s. Every state on the way is the
start of one step of each solver:

    newton           the compiled step
    sparse           IPOPT with exact sparse Jacobian and Hessian (solver="ipopt")
    dense            the same program as the paper's code solved it: all entries of the Jacobian, no
                     Hessian (IPOPT's limited-memory approximation)

The counts of nonzeros are those of the program with the contacts of the last step.

    python benchmarks/ipopt_speed.py [--steps 30]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from random_drops import load

import vi_contact as vc
from vi_contact.solvers.ipopt import IpoptStepper
from vi_contact.solvers.program import Program

STEP = 0.01
SERVOS = {"fly_hopper_rail": (200.0, 20.0), "quadruped": (100.0, 5.0)}
TOLERANCES = (1e-6, 1e-9)


class DenseProgram:
    """A program with a full Jacobian and without a Hessian."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.objective, self.gradient = program.objective, program.gradient
        self.constraints, self.intermediate = program.constraints, program.intermediate
        self._shape = (program.row_count, program.size)

    def jacobian(self, z: np.ndarray) -> np.ndarray:
        matrix = np.zeros(self._shape)
        np.add.at(matrix, self._program.jacobianstructure(), self._program.jacobian(z))
        return matrix.ravel()


class DenseStepper(IpoptStepper):
    """IPOPT as the paper's code calls it."""

    def _problem(self, program: Program) -> object:
        size, rows = program.size, program.row_count
        nlp = self._cyipopt.Problem(
            n=size, m=rows, problem_obj=DenseProgram(program), lb=program.lower,
            ub=np.full(size, np.inf), cl=np.zeros(rows), cu=program.upper_rows,
        )  # fmt: skip
        for name, value in {**self._settings, "hessian_approximation": "limited-memory"}.items():
            nlp.add_option(name, value)
        return nlp


def start(robot: vc.Robot) -> np.ndarray:
    q = robot.neutral()
    if robot.loops:
        q[1] = 0.2
        q = robot.close_loops(q, fixed=("joint_0",))
    for joint in robot.joints:
        side = 1.0 if joint.name[:2] in ("LF", "RF") else -1.0
        if "HFE" in joint.name:
            q[joint.idx_q] = 0.4 * side
        if "KFE" in joint.name:
            q[joint.idx_q] = -0.8 * side
    q = robot.on_ground(q)
    q[0 if robot.loops else 2] += 0.02
    return q


class Case:
    """A solver on a robot: best times of the steps from many states, and what they led to."""

    def __init__(self, solver: str, sim: vc.Simulator, tolerance: float | None = None) -> None:
        self.solver, self.sim, self.tolerance = solver, sim, tolerance
        self.seconds = np.array([np.inf])

    def measure(self, states: list[np.ndarray], servos: np.ndarray) -> None:
        stepper, q = self.sim._stepper, np.empty(self.sim.robot.nq)
        stepper.set_servos(servos)
        seconds, reports, after = [], [], []
        numbers = np.empty(stepper.state_size())
        for state in states:
            stepper.set_state(state[: len(numbers)].copy())
            begin = time.process_time()
            reports.append(stepper.step(None, None))
            seconds.append(time.process_time() - begin)
            stepper.get_state(numbers)
            self.sim._observer.set_state(numbers)
            self.sim._observer.get_q(q)
            after.append(q.copy())
        self.seconds = np.minimum(self.seconds, seconds)
        self.iterations = np.array([report[1] for report in reports])
        self.solved = np.array([report[0] == vc.Status.CONVERGED for report in reports])
        self.after = np.array(after)

    @property
    def counts(self) -> list[str]:
        """Variables, rows, nonzeros of Jacobian and Hessian."""
        if self.tolerance is None:
            return [""] * 4
        program = list(self.sim._stepper._programs.values())[-1][0].program
        entries = program.size * program.row_count
        sparse = self.solver == "sparse"
        jacobian = len(program.jacobianstructure()[0]) if sparse else entries
        hessian = str(len(program.hessianstructure()[0])) if sparse else "none"
        return [str(program.size), str(program.row_count), f"{jacobian} of {entries}", hessian]


def cases(robot: vc.Robot) -> list[Case]:
    found = [Case("newton", vc.Simulator(robot, STEP))]
    for tolerance in TOLERANCES:
        for solver, kind in (("sparse", IpoptStepper), ("dense", DenseStepper)):
            options = vc.IpoptOptions(tolerance=tolerance, max_halvings=0, max_iterations=500)
            sim = vc.Simulator(robot, STEP, solver="ipopt", options=options)
            sim._stepper = kind(robot, STEP, sim.gravity, options, sim.ground, True)
            found.append(Case(solver, sim, tolerance))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30, help="default: 30")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    options = parser.parse_args()
    print("| robot | solver | tolerance | variables | rows | Jacobian | Hessian | CPU ms per step "
          "| iterations | solved | apart |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, (stiffness, damping) in SERVOS.items():
        robot = vc.load_robot(name) if name.startswith("fly") else load(name)
        q = start(robot)
        places = [joint.idx_q for joint in robot.joints if joint.actuated]
        command = vc.JointCommand(q=q[places], kp=stiffness, kd=damping)
        guide = vc.Simulator(robot, STEP, solver="ipopt")
        guide.reset(q)
        states = []
        for _ in range(options.steps):
            states.append(guide.snapshot().numbers)
            guide.step(command)
        found = cases(robot)
        for _ in range(options.repeats):
            for case in found:
                case.measure(states, command.servos(robot))
        for case in found:
            apart = np.abs(case.after - found[0].after)[case.solved].max(initial=0.0)
            limit = "" if case.tolerance is None else f"{case.tolerance:.0e}"
            cells = [
                name, case.solver, limit, *case.counts, f"{1e3 * np.median(case.seconds):.2g}",
                f"{np.median(case.iterations):.0f}", f"{case.solved.sum()} of {len(states)}",
                f"{apart:.0e}",
            ]  # fmt: skip
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
