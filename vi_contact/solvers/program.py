"""A nonlinear program put together from blocks, with sparse derivatives, as cyipopt wants it."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType

import casadi as ca
import numpy as np

from vi_contact.mechanics.time_stepping import POSE, WRENCH, Block
from vi_contact.robot.parts import Array, Indices

logger = logging.getLogger("vi_contact.ipopt")


class _Evaluator:
    """A CasADi function called on arrays without copies; `result` holds the last answer."""

    def __init__(self, function: ca.Function, count: int) -> None:
        mapped = function.map(count) if count > 1 else function
        self._buffer, self.call = mapped.buffer()
        self._arguments = [
            np.zeros((count, function.nnz_in(i)), order="C") for i in range(function.n_in())
        ]
        self.result = np.zeros((count, function.nnz_out(0)))
        for i, argument in enumerate(self._arguments):
            self._buffer.set_arg(i, argument.data)
        self._buffer.set_res(0, self.result.data)

    def __call__(self, *arguments: Array) -> Array:
        for own, given in zip(self._arguments, arguments, strict=True):
            own[...] = given
        self.call()
        return self.result


class Group:
    """Several instances of a block, each on bodies of its own."""

    def __init__(self, block: Block, count: int) -> None:
        self.block = block
        self.count = count
        self.values = _Evaluator(block.values, count)
        self.jacobian = _Evaluator(block.jacobian, count)
        self.hessian = _Evaluator(block.hessian, count)


@dataclass
class Member:
    """A group in a program: its parameters, and where its variables and rows stand."""

    group: Group
    variables: Indices
    """(count, w) in the program."""
    rows: Indices
    """(count, rows) in the program."""
    parameters: Array = field(default_factory=lambda: np.zeros(0))
    """(count, parameters); to be set before the program is solved."""

    @property
    def own(self) -> Indices:
        """(count, own) variables of its own."""
        return self.variables[:, POSE * self.group.block.bodies :]

    @property
    def own_rows(self) -> Indices:
        """(count, own rows)."""
        return self.rows[:, WRENCH * self.group.block.bodies :]


class Program:
    """min cost.z + weights.z^2 with the rows of all members; cyipopt calls the methods below.

    Variables: poses of all bodies as scaled increments (7 n,), then the members' own. Rows:
    momentum of all bodies (6 n,), then the members' own.
    """

    def __init__(self, bodies: int) -> None:
        self.bodies = bodies
        self.size, self.row_count = POSE * bodies, WRENCH * bodies
        self.members: list[Member] = []
        self._lower: list[Array] = [np.full(self.size, -np.inf)]
        self._upper_rows: list[Array] = [np.zeros(self.row_count)]
        self._cost: list[Array] = [np.zeros(self.size)]
        self.iterations = 0
        self.interrupted = False

    def add(self, group: Group, bodies: Indices) -> Member:
        """Instances of a block on bodies (count, block.bodies)."""
        block, count = group.block, group.count
        poses = POSE * bodies[:, :, None] + np.arange(POSE)
        momentum = WRENCH * bodies[:, :, None] + np.arange(WRENCH)
        own = self.size + np.arange(count * block.own).reshape(count, -1)
        width = len(block.equality)
        own_rows = self.row_count + np.arange(count * width).reshape(count, -1)
        member = Member(
            group,
            np.hstack([poses.reshape(count, -1), own]),
            np.hstack([momentum.reshape(count, -1), own_rows]),
        )
        self.members.append(member)
        self.size += count * block.own
        self.row_count += count * width
        self._lower.append(np.tile(block.lower, count))
        self._cost.append(np.tile(block.cost, count))
        self._upper_rows.append(np.tile(np.where(block.equality, 0.0, np.inf), count))
        return member

    def close(self, forces: Indices, weight: float) -> None:
        """After the last `add`: fixes bounds, sparsity and the weight of squared forces."""
        self.lower, self.cost = np.concatenate(self._lower), np.concatenate(self._cost)
        self.upper_rows = np.concatenate(self._upper_rows)
        self.weights = np.zeros(self.size)
        self.weights[forces] = weight
        places = [self._places(m, m.group.block.jacobian, m.rows) for m in self.members]
        self._jacobian_at = tuple(np.concatenate(part) for part in zip(*places, strict=True))
        places = [self._places(m, m.group.block.hessian, m.variables) for m in self.members]
        self._curved = np.flatnonzero(self.weights)
        rows, columns = (np.concatenate(part) for part in zip(*places, strict=True))
        self._hessian_at = (
            np.append(np.maximum(rows, columns), self._curved),
            np.append(np.minimum(rows, columns), self._curved),
        )

    @staticmethod
    def _places(member: Member, function: ca.Function, rows: Indices) -> tuple[Indices, Indices]:
        row, column = (np.array(part, dtype=int) for part in function.sparsity_out(0).get_triplet())
        return rows[:, row].ravel(), member.variables[:, column].ravel()

    # ------------------------------------------------------------------------ cyipopt's names
    def objective(self, z: Array) -> float:
        return float(self.cost @ z + self.weights @ (z * z))

    def gradient(self, z: Array) -> Array:
        return self.cost + 2.0 * self.weights * z

    def constraints(self, z: Array) -> Array:
        total = np.zeros(self.row_count)
        for m in self.members:
            np.add.at(total, m.rows, m.group.values(z[m.variables], m.parameters))
        return total

    def jacobianstructure(self) -> tuple[Indices, ...]:
        return self._jacobian_at

    def jacobian(self, z: Array) -> Array:
        return np.concatenate(
            [m.group.jacobian(z[m.variables], m.parameters).ravel() for m in self.members]
        )

    def hessianstructure(self) -> tuple[Indices, ...]:
        return self._hessian_at

    def hessian(self, z: Array, multipliers: Array, factor: float) -> Array:
        parts = [
            m.group.hessian(z[m.variables], m.parameters, multipliers[m.rows]).ravel()
            for m in self.members
        ]
        return np.concatenate([*parts, 2.0 * factor * self.weights[self._curved]])

    def intermediate(
        self,
        mode: int,
        iteration: int,
        objective: float,
        primal: float,
        dual: float,
        barrier: float,
        length: float,
        regularisation: float,
        alpha_dual: float,
        alpha: float,
        trials: int,
    ) -> bool:
        """IPOPT's log, line by line."""
        self.iterations = iteration
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%s%3d objective %.3e, rows %.1e, dual %.1e, barrier %.1e, step %.1e by %.2f",
                "r" if mode else " ", iteration, objective, primal, dual, barrier, length, alpha,
            )  # fmt: skip
        return not self.interrupted


@contextlib.contextmanager
def interrupts_held(program: Program) -> Iterator[None]:
    """While IPOPT runs: Ctrl-C ends it between two iterations and is raised behind it.

    Raised in one of its callbacks it would leave IPOPT with numbers that were never written.
    """
    program.interrupted = False
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # nothing is raised here
        return
    frames: list[FrameType | None] = []

    def hold(number: int, frame: FrameType | None) -> None:
        program.interrupted = True
        frames.append(frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if frames:
        handler(signal.SIGINT, frames[0])
