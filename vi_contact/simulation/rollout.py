"""Many simulations at once, on all cores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from vi_contact import _core
from vi_contact.errors import ArrayError, OptionError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.maximal import check_array
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.pairs import SelfCollision
from vi_contact.robot.parts import Array, Record, read_only
from vi_contact.robot.robot import Robot
from vi_contact.simulation.simulator import Simulator
from vi_contact.solvers.newton import SolverOptions, Status


@dataclass(frozen=True)
class Rollout(Record):
    """B runs of N steps."""

    time: Array
    """(N+1,) [s]."""
    q: Array
    """(B, N+1, nq); NaN after a step that failed."""
    v: Array
    """(B, N+1, nv) at the nodes."""
    status: tuple[Status, ...]
    """(B,) of each run's last step."""
    steps: Array
    """(B,) steps done."""

    def __repr__(self) -> str:
        runs, nodes, _ = self.q.shape
        ends = Counter(status.name.lower() for status in self.status)
        told = ", ".join(f"{count} {name}" for name, count in ends.items())
        return f"Rollout({runs} runs of {nodes - 1} steps: {told or 'none'})"


def rollout(
    robot: Robot,
    time_step: float,
    q: ArrayLike,
    v: ArrayLike | None,
    tau: ArrayLike,
    threads: int | None = None,
    gravity: ArrayLike = (0.0, 0.0, -9.81),
    options: SolverOptions | None = None,
    ground: Ground | None = Ground(),  # noqa: B008 - immutable
    joint_limits: bool = True,
    obstacles: Sequence[Obstacle] | Obstacle = (),
    self_collision: SelfCollision = False,
) -> Rollout:
    """Runs from many initial states or with many torque sequences; each equals a single run.

    q (B, nq) or (nq,); v (B, nv) or (nv,), zero if None; tau (B, N, nu) or (N, nu) for all runs:
    its second last axis is the number of steps. What has no axis B is the same for every run.
    `threads` is the number of cores if None.
    """
    if threads is not None and not (isinstance(threads, Integral) and threads >= 1):
        raise OptionError(f"threads is {threads!r}; it must be a whole number, at least 1")
    sim = Simulator(
        robot, time_step, gravity, options, ground, joint_limits,
        obstacles=obstacles, self_collision=self_collision,
    )  # fmt: skip
    if tau is None:
        raise ArrayError(
            "tau", f"is None; its shape says how many steps: np.zeros((N, {robot.nu})) for none"
        )
    if q is None:
        raise ArrayError("q", "is None; robot.neutral() and robot.on_ground(q) give one")
    torques = _numbers("tau", tau)
    if torques.ndim not in (2, 3) or torques.shape[-1] != robot.nu:
        raise ArrayError(
            "tau", f"has shape {torques.shape}, needed is (N, {robot.nu}) or (B, N, {robot.nu})"
        )
    starts = _numbers("q", q)
    velocities = np.zeros(robot.nv) if v is None else _numbers("v", v)
    batches = {len(starts)} if starts.ndim == 2 else set()
    batches |= {len(velocities)} if velocities.ndim == 2 else set()
    batches |= {len(torques)} if torques.ndim == 3 else set()
    if len(batches) > 1:
        raise ArrayError("q, v, tau", f"first axes of different lengths: {sorted(batches)}")
    count = batches.pop() if batches else 1
    starts = _stack("q", starts, count, robot.nq)
    velocities = _stack("v", velocities, count, robot.nv)
    for i in range(count):  # the same checks, with the same words, as a single run
        sim.reset(starts[i], velocities[i])
    steps = torques.shape[-2]
    q_out = np.full((count, steps + 1, robot.nq), np.nan)
    v_out = np.full((count, steps + 1, robot.nv), np.nan)
    done = np.zeros((count, 2))
    workers = min(count, threads or os.cpu_count() or 1)
    _core.rollout(
        sim._observer, count, steps, starts, velocities, torques, torques.ndim == 3, q_out, v_out,
        done, max(1, workers),
    )  # fmt: skip
    return Rollout(
        time=read_only(sim.time_step * np.arange(steps + 1, dtype=np.float64)),
        q=read_only(q_out),
        v=read_only(v_out),
        status=tuple(Status(int(code)) for code in done[:, 1]),
        steps=read_only(done[:, 0].astype(int)),
    )


def _numbers(name: str, value: ArrayLike) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArrayError(name, "cannot be read as an array of numbers") from None
    if not np.isfinite(array).all():
        raise ArrayError(name, "has an entry that is not finite")
    return np.ascontiguousarray(array)


def _stack(name: str, array: Array, count: int, size: int) -> Array:
    if array.ndim == 1:
        return np.tile(check_array(name, array, size), (count, 1))
    if array.ndim != 2 or array.shape[1] != size:
        raise ArrayError(name, f"has shape {array.shape}, needed is ({size},) or (B, {size})")
    return array
