"""How long loading takes beside pinocchio's own model building, and importing the package.

    .venv/bin/python benchmarks/loading.py
    .venv/bin/python benchmarks/loading.py --hulls        # self-collision, every example robot
    .venv/bin/python benchmarks/loading.py --hulls ur so  # those with such names

Loading reads no meshes; the last column is what the first look at contacts adds. With --hulls: from
the file to the first step with self-collision in a fresh process, once with an empty cache of hulls
and once again. Processor time counts; wall time is beside it. Imports are not in it, but in the
memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pinocchio as pin

import vi_contact as vc

ROBOTS = ("talos_full_v2", "icub", "romeo", "human", "g1_29dof_rev_1_0", "go2", "panda")
REPEATS = 15
ALLOWED_MS = 50.0
"""A humanoid loads within twice pinocchio's time plus this."""


FIRST_S, AGAIN_S, PEAK_MB = 3.0, 0.5, 500.0
"""Allowed with an empty cache of hulls, with a full one, and of memory in all."""

READY = """
import json, logging, resource, sys, time
import urchin  # reads transmissions
import vi_contact as vc
logging.disable(logging.CRITICAL)
wall, cpu = time.perf_counter(), time.process_time()
robot = vc.load_robot(sys.argv[1])
sim = vc.Simulator(robot, self_collision=True)
try:
    sim.step()
except vc.errors.PenetrationError:  # a fixed robot that reaches into the ground
    pass
seconds = time.process_time() - cpu, time.perf_counter() - wall
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6
simplified = [float(note.split()[-2]) for note in sim.body_pairs.notes if "sticks out" in note]
print(json.dumps([*seconds, peak, len(sim.body_pairs.shapes), max(simplified, default=0.0)]))
"""


def best_ms(action: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def fresh_seconds(program: str) -> float:
    """Of a program in a fresh interpreter, the interpreter's own start taken off."""

    def run(text: str) -> float:
        return best_ms(lambda: subprocess.run([sys.executable, "-c", text], check=True))

    return 1e-3 * (run(program) - run("pass"))


def examples() -> Path:
    robots = "cmeel.prefix/share/example-robot-data/robots"
    return Path(str(metadata.distribution("example-robot-data").locate_file(robots)))


def ready(file: Path, cache: str) -> list[float]:
    """Processor and wall seconds, peak of memory [MB], shapes, largest simplification [mm]."""
    command = [sys.executable, "-c", READY, str(file)]
    settings = os.environ | {"VI_CONTACT_CACHE": cache}
    run = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr.strip().splitlines()[-1])
    return json.loads(run.stdout)


def hulls(names: list[str]) -> bool:
    """Self-collision with an empty cache and with a full one."""
    good = True
    print(f"{'':32} {'first':>17} {'again':>17} {'memory':>15} {'simplified':>11}")
    print(f"{'robot':25} {'shapes':>6} {'cpu':>8} {'wall':>8} {'cpu':>8} {'wall':>8}")
    for file in sorted(examples().rglob("*.urdf"), key=lambda path: path.name):
        if names and not any(name in file.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as cache:
            try:
                first, again = ready(file, cache), ready(file, cache)
            except RuntimeError as error:
                print(f"{file.stem[:25]:25} cannot be loaded: {str(error)[-60:]}")
                continue
        peak = max(first[2], again[2])
        fits = first[0] < FIRST_S and again[0] < AGAIN_S and peak < PEAK_MB
        good &= fits
        print(
            f"{file.stem[:25]:25} {int(first[3]):6d} {first[0]:6.2f} s {first[1]:6.2f} s "
            f"{again[0]:6.2f} s {again[1]:6.2f} s {first[2]:4.0f} {again[2]:4.0f} MB "
            f"{first[4]:8.2g} mm{'' if fits else '  TOO MUCH'}",
            flush=True,
        )
    print(f"allowed: {FIRST_S} s, {AGAIN_S} s of processor time, {PEAK_MB:.0f} MB")
    return good


def main() -> bool:
    if "--hulls" in sys.argv:
        return hulls([argument for argument in sys.argv[1:] if argument != "--hulls"])
    folder = examples()
    good = True
    columns = f"{'pinocchio':>10} {'vi_contact':>11} {'allowed':>8} {'contacts':>9}"
    print(f"{'robot':20} {'bodies':>6} {columns}")
    for name in ROBOTS:
        file = next(folder.rglob(f"{name}.urdf"))
        vc.load_robot(file)  # imports what the file needs, once
        peer = best_ms(
            lambda file=file: pin.buildModelFromUrdf(str(file), pin.JointModelFreeFlyer())
        )
        ours = best_ms(lambda file=file: vc.load_robot(file))
        robot = vc.load_robot(file)
        start = time.perf_counter()
        count = len(robot.contacts)
        meshes = 1e3 * (time.perf_counter() - start)
        allowed = 2.0 * peer + ALLOWED_MS
        good &= ours < allowed
        print(
            f"{name:20} {len(robot.bodies):6d} {peer:7.1f} ms {ours:8.1f} ms {allowed:5.0f} ms "
            f"{meshes:6.0f} ms ({count})"
        )
    talos = next(folder.rglob("talos_full_v2.urdf"))
    first = fresh_seconds(f"import vi_contact as vc; vc.load_robot({str(talos)!r})")
    seconds = fresh_seconds("import vi_contact")
    print(f"first load of talos_full_v2 in a fresh process, imports included: {first:.2f} s")
    good &= seconds < 0.5
    print(f"import vi_contact: {seconds:.2f} s (allowed 0.5 s)")
    print("all within what is allowed" if good else "TOO SLOW")
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
