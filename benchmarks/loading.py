"""How long loading takes beside pinocchio's own model building, and importing the package.

    .venv/bin/python benchmarks/loading.py

Loading reads no meshes; the last column is what the first look at contacts adds.
"""

from __future__ import annotations

import subprocess
import sys
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


def main() -> bool:
    folder = metadata.distribution("example-robot-data").locate_file(
        "cmeel.prefix/share/example-robot-data/robots"
    )
    good = True
    columns = f"{'pinocchio':>10} {'vi_contact':>11} {'allowed':>8} {'contacts':>9}"
    print(f"{'robot':20} {'bodies':>6} {columns}")
    for name in ROBOTS:
        file = next(Path(str(folder)).rglob(f"{name}.urdf"))
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
    talos = next(Path(str(folder)).rglob("talos_full_v2.urdf"))
    first = fresh_seconds(f"import vi_contact as vc; vc.load_robot({str(talos)!r})")
    seconds = fresh_seconds("import vi_contact")
    print(f"first load of talos_full_v2 in a fresh process, imports included: {first:.2f} s")
    good &= seconds < 0.5
    print(f"import vi_contact: {seconds:.2f} s (allowed 0.5 s)")
    print("all within what is allowed" if good else "TOO SLOW")
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
