"""Robots of others dropped: folders of URDF files, with free and with fixed base, limp and held.

Every file that loads is dropped from 0.2 m in a tilted attitude, and let swing on a fixed base,
each without torques and with its joints held by JointPD, at every time step asked for. What is
refused is named with the reason, and so is every run that failed, with what repeats it. Nothing in
the table but refusals and speed should be above zero; energy is what the robot had most, beyond its
start and the work of its drives, and the largest such part of a run's kinetic energy.

    python benchmarks/held_out.py [FOLDER ...] [--every 10] [--jobs 2]

Without a folder: those that come with pybullet (`pip install pybullet`).
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import util
from itertools import product
from multiprocessing import Pool
from pathlib import Path

import numpy as np

import vi_contact as vc
from vi_contact.controllers import JointPD

STEPS = (0.01, 0.002)
DROP = 0.2
"""Height of the lowest contact at the start [m]."""

GAP = 0.05
"""Least height of the lowest contact of a fixed base at the start [m]."""

TILT = 0.4
"""Of a free base, about x and y [rad]."""

BENT = 0.3
"""Joints start at most so far from neutral [rad or m]."""

CHUNK = 20
"""Steps after which the clock is looked at."""


@dataclass
class Run:
    """One drop."""

    base: str
    held: bool
    time_step: float
    steps: int = 0
    status: str = "CONVERGED"
    finite: bool = True
    speed: float = 0.0
    """Largest of a body's centre of mass [m/s]."""
    gain: float = 0.0
    """Of energy [J]."""
    part: float = 0.0
    """Of the gain, of the largest kinetic energy and a centimetre's fall."""
    cut: bool = False
    """Whether there was no time for all of it."""

    @property
    def words(self) -> str:
        torques = "JointPD" if self.held else "no torques"
        return f"base {self.base}, {torques}, h = {self.time_step:g} s"


@dataclass
class Result:
    """What became of a file."""

    file: Path
    refusal: str = ""
    skipped: int = 0
    """Runs that there was no time for."""
    runs: list[Run] = field(default_factory=list)


def start(robot: vc.Robot) -> np.ndarray:
    """About the neutral configuration, where no loop forbids it; a free base tilted and lifted."""
    q, rng = robot.neutral(), np.random.default_rng(1)
    if not robot.loops and not robot.mimics:
        for joint in robot.joints:
            if joint.nq == 1:
                turned = q[joint.idx_q] + rng.uniform(-BENT, BENT)
                q[joint.idx_q] = np.clip(turned, joint.lower[0], joint.upper[0])
    if not len(robot.base_dofs):
        return q
    q[3:7] = [np.sin(TILT / 2), np.sin(TILT / 2), 0.0, np.sqrt(1.0 - 2.0 * np.sin(TILT / 2) ** 2)]
    return robot.on_ground(q, height=DROP) if robot.contacts else q


def ground_below(robot: vc.Robot, q: np.ndarray) -> vc.Ground:
    """z = 0, or lower where the links of a fixed base would start in it or next to it."""
    state = vc.Simulator(robot, STEPS[0], ground=None).reset(q)
    lowest = [
        state.p_WB[c.body, 2] + rotated(state.quat_WB_xyzw[c.body], c.p_BC)[2] - c.radius
        for c in robot.contacts
    ]
    return vc.Ground(height=min([0.0, *(height - GAP for height in lowest)]))


def rotated(quat_xyzw: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(3,) p turned by a quaternion."""
    u, w = quat_xyzw[:3], quat_xyzw[3]
    return p + 2.0 * np.cross(u, np.cross(u, p) + w * p)


def drop(robot: vc.Robot, run: Run, duration: float, deadline: float) -> None:
    """Fills in what a run gave; it may end early."""
    q = start(robot)
    sim = vc.Simulator(robot, run.time_step, ground=ground_below(robot, q))
    sim.reset(q)
    control = JointPD(robot) if run.held else None
    count = round(duration / run.time_step)
    begin = worked = 0.0
    scale = max(0.01 * 9.81 * robot.mass, 1e-9)  # links without mass have no energy
    while run.steps < count and run.status == "CONVERGED" and time.perf_counter() < deadline:
        length = min(CHUNK, count - run.steps)
        part = sim.run(length * run.time_step, control, throw=False)
        if not run.steps:
            begin = float(part.energy[0])
        run.steps += len(part)
        run.status = part.status.name
        run.finite &= bool(np.isfinite(part.q).all() and np.isfinite(part.v).all())
        speeds = np.diff(part.p_WB, axis=0) / run.time_step
        run.speed = max(run.speed, float(np.linalg.norm(speeds, axis=-1).max(initial=0.0)))
        scale = max(scale, float(part.kinetic.max()))
        beyond = part.energy[1:] - begin - worked - np.cumsum(part.ledger.motor)
        run.gain = max(run.gain, float(beyond.max(initial=0.0)))
        worked += float(part.ledger.motor.sum())
    run.part = run.gain / scale
    run.cut = run.steps < count and run.status == "CONVERGED"


def try_file(task: tuple[Path, list[Path], tuple[float, ...], float, float]) -> Result:
    """Loads a file and does all its runs, within some seconds."""
    file, folders, steps, duration, seconds = task
    logging.getLogger("vi_contact").setLevel(logging.ERROR)  # of meshes that are not there
    result = Result(file)
    deadline = time.perf_counter() + seconds
    for base in ("free", "fixed"):
        try:
            robot = vc.load_robot(file, base, package_dirs=folders)
        except vc.ViContactError as error:
            result.refusal = str(error)
            return result
        if not robot.nv:
            continue
        for held, time_step in product((False, True)[: 2 if robot.nu else 1], steps):
            if time.perf_counter() > deadline:
                result.skipped += 1
                continue
            run = Run(base, held, time_step)
            try:
                drop(robot, run, duration, deadline)
            except vc.ViContactError as error:  # a start that is refused
                run.status = f"{type(error).__name__}: {error}"
            result.runs.append(run)
    return result


def pybullet_folder() -> Path | None:
    """Where pybullet has its robots."""
    found = util.find_spec("pybullet_data")
    return Path(str(found.origin)).parent if found else None


def files_in(folders: list[Path], every: int) -> Iterator[tuple[Path, list[Path]]]:
    for folder in folders:
        for file in sorted(folder.rglob("*.urdf"))[::every]:
            yield file, folders


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take each of so many files only")
    parser.add_argument("--steps", nargs="*", type=float, default=STEPS, help="time steps [s]")
    parser.add_argument("--duration", type=float, default=1.0, help="of each drop [s]")
    parser.add_argument("--seconds", type=float, default=30.0, help="of wall time for a file")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--without", default="", help="leave out paths that contain this")
    options = parser.parse_args(arguments)
    folders = options.folders or [folder for folder in [pybullet_folder()] if folder]
    if not folders:
        parser.error("name a folder of URDF files, or install pybullet, which has one")
    tasks = [
        (file, beside, tuple(options.steps), options.duration, options.seconds)
        for file, beside in files_in(folders, options.every)
        if not options.without or options.without not in str(file)
    ]
    results = []
    with Pool(options.jobs) as pool:
        for result in pool.imap(try_file, tasks):
            results.append(result)
            told(result)
    return table(results)


def told(result: Result) -> None:
    """Prints what is wrong with a file."""
    if result.refusal:
        print(f"refused: {result.refusal}", flush=True)
    for run in result.runs:
        if run.status != "CONVERGED" or not run.finite:
            nan = "" if run.finite else ", not finite"
            message = f"failed: {result.file}: {run.words}: step {run.steps}: {run.status}{nan}"
            print(message, flush=True)


def table(results: list[Result]) -> int:
    """Prints one; 1 if a run failed."""
    refused = [result for result in results if result.refusal]
    print(f"{len(results)} files: {len(results) - len(refused)} loaded, {len(refused)} refused")
    print(
        f"{'base':6}{'torques':9}{'h [s]':>7}{'robots':>8}{'steps':>9}{'failed':>8}{'NaN':>5}",
        end="",
    )
    print(f"{'speed [m/s]':>13}{'energy [J]':>12}{'part':>9}  of")
    runs = [(run, result.file) for result in results for run in result.runs]
    kinds = sorted({(run.base, run.held, run.time_step) for run, _ in runs}, reverse=True)
    count: Counter[str] = Counter()
    for base, held, h in kinds:
        own = [(r, f) for r, f in runs if (r.base, r.held, r.time_step) == (base, held, h)]
        failed = sum(run.status != "CONVERGED" for run, _ in own)
        unknown = sum(not run.finite for run, _ in own)
        count["failed"] += failed + unknown
        steps = sum(run.steps for run, _ in own)
        speed = max(run.speed for run, _ in own)
        gain = max(run.gain for run, _ in own)
        part, file = max((run.part, f) for run, f in own)
        print(f"{base:6}{'JointPD' if held else 'none':9}{h:7g}{len(own):8}{steps:9}", end="")
        print(f"{failed:8}{unknown:5}{speed:13.3g}{gain:12.3g}{part:9.2g}  {file.name}")
    skipped = sum(result.skipped for result in results) + sum(run.cut for run, _ in runs)
    if skipped:
        print(f"{skipped} runs were left out, or cut, for want of time: --seconds")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
