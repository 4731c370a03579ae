"""Hostile input: robot files, saved trajectories and snapshots that were damaged at random.

    python benchmarks/fuzz.py [--urdf 10000] [--npz 10000] [--snapshots 2000] [--seed 0]

Every one either works or raises a ViContactError. Prints the counts; a crash ends the process with
the number of the case in the file named by --trace, anything else is listed and the exit code is 1:
another exception, a case that took longer than 20 s, memory that grows. `./run fuzz` does the same
with the compiled part under AddressSanitizer and UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

HANG = 20.0
"""Longest case that is accepted [s]."""

GROWTH = 400
"""Memory that a part may add after its first tenth [MB]; a leak of one robot per case adds more."""


def load_compiled(path: str) -> None:
    """Takes another compiled extension, as one with sanitizers, in place of that installed."""
    name = "vi_contact._core._compiled"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


class Cases:
    """Runs cases and keeps the books."""

    def __init__(self, seed: int, trace: Path | None = None) -> None:
        self.seed, self.trace = seed, trace
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.slowest = 0.0

    def run(self, part: str, count: int, case: Callable[[random.Random], None]) -> None:
        """`count` cases of a part; each gets numbers of its own, whatever ran before."""
        from vi_contact import ViContactError

        early = 0
        for k in range(count):
            name = f"{part} {k} of seed {self.seed}"
            if self.trace:
                self.trace.write_text(name)
            start = time.monotonic()
            try:
                case(random.Random(f"{part} {self.seed} {k}"))
                self.counts[f"{part}: accepted"] += 1
            except ViContactError as error:
                self.counts[f"{part}: {type(error).__name__}"] += 1
            except Exception:  # noqa: BLE001 - that is what is looked for
                self.faults.append(f"{name}:\n{traceback.format_exc(limit=-4)}")
            took = time.monotonic() - start
            self.slowest = max(self.slowest, took)
            if took > HANG:
                self.faults.append(f"{name}: {took:.0f} s")
            if k == count // 10:
                early = memory()
        if count >= 500 and memory() - early > GROWTH:
            self.faults.append(f"{part}: memory grew by {memory() - early} MB")


def memory() -> int:
    """Largest so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


# ---------------------------------------------------------------- robot files
WORDS = [
    b"nan", b"inf", b"-1", b"0", b"1e308", b"-1e308", b"1e-320", b"", b" ", b"1e5", b"link",
    b"\xff", b"\x00", b"&amp;", b"<", b">", b'"', b"../../../etc/passwd", b"package://../../etc/passwd",
    b"1 0 0", b"0 0 0", b"floating", b"planar", b"continuous", b"fixed", b"spherical", b"world",
]  # fmt: skip


def damaged_text(text: bytes, rng: random.Random) -> bytes:
    """One to four changes: values, bytes or lines are changed, doubled, lost, swapped."""
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice([0] * 20 + [1] * 4 + [2, 3, 4, 5])
        values = [*re.finditer(rb'="([^"]*)"', text)]
        if kind <= 1 and values:
            value = rng.choice(values)
            other = rng.choice(values)[1] if kind else rng.choice(WORDS)
            text = text[: value.start(1)] + other + text[value.end(1) :]
        elif kind == 2:
            i = rng.randrange(max(1, len(text)))
            text = text[:i] + bytes([rng.randrange(256)]) + text[i + 1 :]
        elif kind == 3:
            i = rng.randrange(max(1, len(text)))
            text = text[:i] + text[i + rng.randint(1, 200) :]
        else:
            lines = text.split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            if kind == 4:
                lines.insert(i, lines[j])
            else:
                lines[i], lines[j] = lines[j], lines[i]
            text = b"\n".join(lines)
    return text


def robot_case(folder: Path) -> Callable[[random.Random], None]:
    """Loads a damaged file of a bundled robot and takes two steps."""
    import vi_contact as vc
    from vi_contact.robot.urdf import bundled_robots

    files = [Path(vc.load_robot(name).path).read_bytes() for name in bundled_robots()]

    def case(rng: random.Random) -> None:
        file = folder / "robot.urdf"
        file.write_bytes(damaged_text(rng.choice(files), rng))
        robot = vc.load_robot(file)
        sim = vc.Simulator(robot)
        sim.step()
        sim.step()

    return case


# ---------------------------------------------------------------- files of arrays
def simulators() -> list:
    """Of all kinds whose states differ: with ground, obstacles, events, and without any."""
    import vi_contact as vc

    hopper = vc.load_robot("fly_hopper")
    table = vc.Obstacle.box((2.0, 2.0, 0.1), (0.0, 0.0, -0.05), name="table")
    rock = vc.Obstacle.mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], (3, 0, 0), name="rock")
    met = vc.Simulator(hopper, ground=None, obstacles=[table, rock])
    q = hopper.on_ground(hopper.neutral())
    q[2] += 0.01
    met.reset(q)
    return [
        vc.Simulator(hopper),
        met,
        vc.Simulator(vc.load_robot("jumper"), contact=vc.PlasticContact()),
        vc.Simulator(vc.load_robot("walker")),
    ]


def damaged_array(array, rng: random.Random):
    """An array with other numbers, shape or type."""
    import numpy as np

    array = np.array(array)
    kind = rng.randrange(7)
    if kind == 0 and array.size and array.dtype.kind in "fi":
        flat = array.reshape(-1)
        i = rng.randrange(len(flat))
        values = [0, -1, 1, 1e9, -1e300, 2.5, np.nan, np.inf, 1e18, 7]
        with contextlib.suppress(ValueError, OverflowError):
            flat[i] = rng.choice(values)
        return array
    if kind == 1:
        return array[..., :-1] if array.ndim else np.array([array])
    if kind == 2:
        return array.astype(rng.choice(["f4", "i8", "U8", "S4", "c16", "?"]), casting="unsafe")
    if kind == 3:
        return array.T.copy() if array.ndim > 1 else array[None]
    if kind == 4 and array.ndim:
        return np.concatenate([array, array])
    if kind == 5:
        return np.zeros(rng.choice([(), (0,), (1,), (3, 0), (2, 2, 2)]))
    return array.astype(np.float64) * 1e30 if array.dtype.kind in "fi" else array


def damaged_archive(content: bytes, rng: random.Random) -> bytes:
    """Bytes turned, cut off, or arrays damaged under a right check sum."""
    import numpy as np

    if rng.random() < 0.4:
        data = bytearray(content)
        for _ in range(rng.choice([1, 1, 3, 20])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)
    if rng.random() < 0.3:  # the bytes of one array, headers too
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
            names = old.namelist()
            chosen = rng.choice(names)
            for name in names:
                data = bytearray(old.read(name))
                if name == chosen:
                    for _ in range(rng.choice([1, 2, 8])):
                        data[rng.randrange(len(data))] = rng.randrange(256)
                new.writestr(name, bytes(data))
        return out.getvalue()
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    for _ in range(rng.choice([1, 1, 2, 5])):
        name = rng.choice(list(arrays))
        if rng.random() < 0.1 and len(arrays) > 1:
            del arrays[name]
        else:
            with contextlib.suppress(ValueError, TypeError):
                arrays[name] = damaged_array(arrays[name], rng)
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def archive_case(folder: Path) -> Callable[[random.Random], None]:
    """Loads a damaged trajectory or saved step, and asks for what it says."""
    import vi_contact as vc
    from vi_contact.simulation.replay import load_failure, save_failure

    trajectories, steps = [], []
    for sim in simulators():
        sim.run(0.05).save(folder / "good.npz")
        trajectories.append((folder / "good.npz").read_bytes())
        if sim.contact is None:
            save_failure(sim, folder / "step.npz")
            steps.append((folder / "step.npz").read_bytes())

    def case(rng: random.Random) -> None:
        file = folder / "case.npz"
        if rng.random() < 0.7:
            file.write_bytes(damaged_archive(rng.choice(trajectories), rng))
            trajectory = vc.Trajectory.load(file)
            for name in trajectory.contacts:
                trajectory.contacts[name]
            repr((trajectory, trajectory.contacts, trajectory.impacts, trajectory.ledger.defect))
            return
        file.write_bytes(damaged_archive(rng.choice(steps), rng))
        sim, tau = load_failure(file)
        sim.step(tau)

    return case


# ---------------------------------------------------------------- snapshots
def snapshot_case() -> Callable[[random.Random], None]:
    """Restores a snapshot with wrong numbers, counts, indices or lengths, and goes on."""
    import numpy as np

    sims = simulators()
    kept = []
    for sim in sims:
        sim.run(0.12)
        kept.append(sim.snapshot())

    def numbers_of(numbers, rng: random.Random):
        numbers = np.array(numbers)
        kind = rng.randrange(8)
        if kind == 0:
            return numbers[: rng.randrange(len(numbers))]
        if kind == 1:
            return np.concatenate([numbers, rng.choice([1, 30, 60]) * [0.0]])
        if kind == 2:
            return numbers.astype(rng.choice(["f4", "i8", "U4", "O"]))
        for _ in range(rng.choice([1, 1, 2, 10])):
            i = -rng.randint(1, min(70, len(numbers))) if kind > 4 else rng.randrange(len(numbers))
            numbers[i] = rng.choice(
                [-1.0, 0.5, 1.0, 2.0, 3.0, 1e3, 1e9, 1e18, -1e300, np.nan, np.inf, -np.inf]
            )
        return numbers

    def node_of(node, rng: random.Random):
        state = node.state
        changed = {
            "held": [(), ((0, (0, 0, 0), False),), tuple(node.held) * 2, [1]],
            "shares": [np.zeros((7, 3)), np.zeros((1, 2)), None],
            "before": [np.zeros(5), np.array([np.nan])],
            "stuck": [frozenset({99}), frozenset({-1}), [0]],
            "fired": [((3, True),), ((0, 1, 2),)],
            "kicks": [((9, np.zeros(3)),), ((0, np.zeros(1)),)],
            "state": [None, 3.0],
        }
        name = rng.choice([*changed, "numbers"])
        if name != "numbers":
            return node._replace(**{name: rng.choice(changed[name])})
        other = type(state).__new__(type(state))
        vars(other).update(vars(state))
        vars(other)["_numbers"] = numbers_of(state._numbers, rng)
        for known in ("q", "v", "_observation"):
            vars(other).pop(known, None)
        return node._replace(state=other)

    def case(rng: random.Random) -> None:
        k = rng.randrange(len(sims))
        sim, snapshot = sims[k], kept[k]
        changes = {"numbers": numbers_of(snapshot.numbers, rng)}
        if snapshot.node is not None:
            changes["node"] = node_of(snapshot.node, rng)
        if rng.random() < 0.1:
            changes["time"] = rng.choice([float("nan"), None, 1e300])
        try:
            sim.restore(dataclasses.replace(snapshot, **changes))
            sim.step()
            assert sim.state.q is not None and sim.state.v is not None
        finally:
            sim.restore(snapshot)

    return case


def main(arguments: list[str] | None = None) -> int:
    """Run as many cases as asked for and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urdf", type=int, default=10_000)
    parser.add_argument("--npz", type=int, default=10_000)
    parser.add_argument("--snapshots", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", help="another compiled extension, as of ./run fuzz")
    parser.add_argument("--trace", type=Path, help="file that gets the case that runs")
    given = parser.parse_args(arguments)
    if given.compiled:
        load_compiled(given.compiled)
    warnings.simplefilter("ignore")
    cases = Cases(given.seed, given.trace)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, count, make in (
            ("urdf", given.urdf, lambda: robot_case(folder)),
            ("npz", given.npz, lambda: archive_case(folder)),
            ("snapshot", given.snapshots, snapshot_case),
        ):
            if count:
                start = time.monotonic()
                cases.run(part, count, make())
                took = time.monotonic() - start
                print(f"{part}: {count} cases in {took:.0f} s, {memory()} MB", flush=True)
    for what, count in sorted(cases.counts.items()):
        print(f"  {what:40s} {count}")
    print(f"slowest case {cases.slowest:.2f} s; {len(cases.faults)} faults")
    print(*cases.faults[:20], sep="\n")
    return 1 if cases.faults else 0


if __name__ == "__main__":
    sys.exit(main())
