"""Hashes of q and p over twenty-odd scenes: a move of code that changes none has kept the bits.

python benchmarks/bits.py --save before.json      # then change the code and rebuild
python benchmarks/bits.py --compare before.json   # names the scenes whose bits differ
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio as pin

import vi_contact as vc
from vi_contact.controllers import JointPD

EXAMPLES = {"panda": "panda.urdf", "go2": "go2.urdf", "talos": "talos_reduced.urdf"}

KINDS: dict[str, Callable[[], pin.JointModel]] = {
    "revolute": lambda: pin.JointModelRevoluteUnaligned(np.array([0.6, 0.0, 0.8])),
    "continuous": pin.JointModelRUBY,
    "prismatic": lambda: pin.JointModelPrismaticUnaligned(np.array([0.0, 0.6, 0.8])),
    "spherical": pin.JointModelSpherical,
    "planar": pin.JointModelPlanar,
    "floating": pin.JointModelFreeFlyer,
}

Scene = Callable[[], tuple[vc.Simulator, int, object]]


def chain_of(kinds: tuple[str, ...], free: bool) -> vc.Robot:
    """Lopsided boxes in a row, joined by the kinds of joints."""
    model, joint, rng = pin.Model(), 0, np.random.default_rng(3)
    model.name = "_".join(kinds)
    for i, kind in enumerate((("floating",) if free else ()) + kinds):
        placement = pin.SE3(np.eye(3), np.array([0.1, 0.02 * i, -0.2]))
        joint = model.addJoint(joint, KINDS[kind](), placement, f"{kind}_{i}")
        body = pin.Inertia(
            1.0 + 0.1 * i, rng.normal(scale=0.05, size=3), np.diag([2e-3, 3e-3, 4e-3])
        )
        model.appendBodyToJoint(joint, body, pin.SE3.Identity())
    return vc.from_pinocchio(model)


def load(name: str) -> vc.Robot:
    """A robot of example-robot-data, or a bundled one."""
    if name not in EXAMPLES:
        return vc.load_robot(name)
    robots = "cmeel.prefix/share/example-robot-data/robots"
    folder = Path(str(metadata.distribution("example-robot-data").locate_file(robots)))
    return vc.load_robot(next(folder.rglob(EXAMPLES[name])))


def noise(robot: vc.Robot, size: float) -> Callable[[vc.State], np.ndarray]:
    """Torques that jump in every step, the same ones in every run."""
    rng = np.random.default_rng(7)
    return lambda state: size * rng.normal(size=robot.nu)


def moving(robot: vc.Robot, speed: float = 0.5, **settings: object) -> vc.Simulator:
    """A simulator that starts with every joint moving; loops close the velocity."""
    sim = vc.Simulator(robot, **settings)  # type: ignore[arg-type]
    q = sim.state.q
    if robot.contact_names and settings.get("ground", True) is not None:
        q = robot.on_ground(q)
        if robot.model.joints[1].nq == 7:
            q[2] += 0.02
    sim.reset(q, speed * np.random.default_rng(5).normal(size=robot.nv))
    return sim


def scenes() -> dict[str, Scene]:
    """Every joint kind, loop, mimic, motor, servo, limit, contact and event there is."""
    found: dict[str, Scene] = {}

    def add(name: str, make: Callable[[], tuple[vc.Simulator, int, object]]) -> None:
        found[name] = make

    def flight(robot: vc.Robot, steps: int = 100, tau: float = 0.3) -> tuple:
        return moving(robot, ground=None), steps, noise(robot, tau)

    for kind in KINDS:
        add(f"{kind} free", lambda kind=kind: flight(chain_of((kind, "revolute"), True)))
        add(f"{kind} fixed", lambda kind=kind: flight(chain_of(("revolute", kind), False)))
    for name in ("panda", "go2", "talos"):
        add(f"{name} flight", lambda name=name: flight(load(name), tau=0.5))
    for name in ("fly_hopper", "fly_hopper_wheels", "jumper", "walker"):
        add(f"{name} flight", lambda name=name: flight(load(name)))

    def dropped(name: str, friction: float = 0.8, restitution: float = 0.0) -> tuple:
        robot = load(name)
        ground = vc.Ground(friction=friction, restitution=restitution)
        return moving(robot, ground=ground), 80, noise(robot, 0.5)

    add("go2 drop", lambda: dropped("go2"))
    add("go2 slides", lambda: dropped("go2", friction=0.05))
    add("hopper bounces", lambda: dropped("fly_hopper_rail", restitution=0.6))
    add("hopper drop", lambda: dropped("fly_hopper"))
    add("talos drop", lambda: dropped("talos"))

    def servo() -> tuple:
        robot = load("go2")
        sim = vc.Simulator(robot)
        return sim, 100, JointPD(robot, kp=200.0, kd=2.0)

    add("go2 servos", servo)

    def obstacle() -> tuple:
        robot = vc.load_robot("fly_hopper")
        box = vc.Obstacle.box((0.4, 0.4, 0.1), (0.0, 0.0, 0.05))
        sim = vc.Simulator(robot, obstacles=box)
        q = robot.on_ground(sim.state.q)
        q[2] += 0.15
        sim.reset(q)
        return sim, 60, noise(robot, 0.2)

    add("hopper on a box", obstacle)

    def chain() -> tuple:
        sim = vc.Simulator(chain_of(("revolute",) * 40, False), ground=None, time_step=0.02)
        sim.reset(None, 3.0 * np.random.default_rng(1).normal(size=40))
        return sim, 40, None

    add("chain, halved steps", chain)

    def law(contact: object) -> tuple:
        robot = vc.load_robot("jumper")
        sim = vc.Simulator(robot, contact=contact)  # type: ignore[arg-type]
        q = robot.on_ground(robot.neutral())
        q[0] += 0.1
        sim.reset(q)
        return sim, 60, None

    add("elastic events", lambda: law(vc.ElasticContact(balance="node")))
    add("plastic events", lambda: law(vc.PlasticContact()))
    return found


def digest(sim: vc.Simulator, steps: int, controller: object) -> str:
    """Hash of the coordinates and momenta at every node, or of the word that ended it."""
    total = hashlib.sha256()
    for _ in range(steps):
        try:
            command = controller(sim.state) if callable(controller) else controller
            state = sim.step(command)  # type: ignore[arg-type]
        except vc.ViContactError as error:
            total.update(type(error).__name__.encode())
            break
        total.update(state.q.tobytes() + state.v.tobytes())
    return total.hexdigest()[:16]


def main() -> int:
    """Print the hashes, and keep or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    arguments = parser.parse_args()
    before = json.loads(arguments.compare.read_text()) if arguments.compare else {}
    hashes, differ = {}, []
    for name, make in scenes().items():
        hashes[name] = digest(*make())
        if name in before and before[name] != hashes[name]:
            differ.append(name)
        print(f"{name:26s} {hashes[name]}{'  differs' if name in differ else ''}", flush=True)
    if arguments.save:
        arguments.save.write_text(json.dumps(hashes, indent=1))
    if before:
        print(f"{len(differ)} of {len(hashes)} scenes differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
