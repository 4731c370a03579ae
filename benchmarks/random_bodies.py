"""Two to four bodies tossed on each other, the ground and a table: failures, depth, energy.

Random shapes, masses from 0.1 to 10 kg, friction 0 to 1.5, spins and time steps from 1 to 20 ms.
The energy is compared between nodes in free flight: at others it is what closed contacts leave.

    python benchmarks/random_bodies.py [seconds]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import vi_contact as vc

SHAPES = (
    '<sphere radius="0.1"/>',
    '<capsule radius="0.06" length="0.2"/>',
    '<box size="0.2 0.15 0.1"/>',
    '<cylinder radius="0.08" length="0.15"/>',
)
STEPS = 300


def scene(folder: Path, count: int, rng: np.random.Generator) -> vc.Robot:
    parts = ['<robot name="scene"><link name="world"/>']
    for k in range(count):
        mass, shape = 10.0 ** rng.uniform(-1.0, 1.0), rng.choice(SHAPES)
        moment = 0.005 * mass  # of a body of 0.1 m
        parts.append(
            f'<link name="body_{k}"><inertial><mass value="{mass}"/><inertia ixx="{moment}" '
            f'iyy="{0.8 * moment}" izz="{0.6 * moment}" ixy="0" ixz="0" iyz="0"/></inertial>'
            f"<collision><geometry>{shape}</geometry></collision></link>"
            f'<joint name="joint_{k}" type="floating"><parent link="world"/>'
            f'<child link="body_{k}"/></joint>'
        )
    file = folder / "scene.urdf"
    file.write_text("".join([*parts, "</robot>"]))
    return vc.load_robot(file)


def toss(folder: Path, rng: np.random.Generator) -> vc.Trajectory:
    count = int(rng.integers(2, 5))
    robot = scene(folder, count, rng)
    h, mu = 10.0 ** rng.uniform(-3.0, np.log10(0.02)), rng.uniform(0.0, 1.5)
    table = vc.Obstacle.box((0.6, 0.6, 0.3), (0.0, 0.0, 0.15), friction=mu, name="table")
    obstacles = [table] if rng.random() < 0.5 else []
    sim = vc.Simulator(robot, h, ground=vc.Ground(friction=mu), obstacles=obstacles)
    q = np.zeros((count, 7))
    q[:, :2] = 0.05 * rng.normal(size=(count, 2))
    q[:, 2] = 0.6 + 0.35 * np.arange(count)
    q[:, 3:] = rng.normal(size=(count, 4))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    sim.reset(q.ravel(), 1.5 * rng.normal(size=6 * count))
    return sim.run(STEPS * h, throw=False)


def gain(trajectory: vc.Trajectory) -> float:
    """Largest rise of energy from one node in free flight to the next, of the first energy."""
    touched = np.zeros(len(trajectory) + 2, dtype=bool)
    touched[trajectory.contacts.touches[:, 0].astype(int) + 1] = True
    energy = trajectory.energy[(~touched[:-1] & ~touched[1:])[: len(trajectory.energy)]]
    return float(np.diff(energy).max(initial=0.0)) / trajectory.energy[0]


def main(arguments: list[str]) -> None:
    seconds = float(arguments[0]) if arguments else 60.0
    rng = np.random.default_rng(1)
    methods: Counter[int] = Counter()
    steps = split = failed = runs = 0
    depth = worst = 0.0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - begin < seconds:
            trajectory = toss(Path(folder), rng)
            runs, steps = runs + 1, steps + len(trajectory)
            failed += trajectory.status is not vc.Status.CONVERGED
            methods.update(trajectory.methods.tolist())
            split += int((trajectory.parts > 1).sum())
            gaps = [record.gap.min() for record in trajectory.contacts.values()]
            depth = max(depth, -float(min(gaps)))
            worst = max(worst, gain(trajectory))
    names = ("newton", "again or sweeps", "interior point")
    shares = ", ".join(f"{name} {methods[k] / steps:.2%}" for k, name in enumerate(names))
    print(f"{runs} runs, {steps} steps, {failed} failed; {shares}, in parts {split / steps:.3%}")
    print(f"deepest {depth:.1e} m, energy between free flights rose by at most {worst:.2%}")


if __name__ == "__main__":
    main(sys.argv[1:])
