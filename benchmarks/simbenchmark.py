"""Tasks of SimBenchmark (leggedrobotics.github.io/SimBenchmark) beside MuJoCo and PyBullet.

    python benchmarks/simbenchmark.py rolling | bouncing | 666 | anymal | all

rolling   25 balls of 1 kg on a box of 10 kg that 150 N push at 45 degrees; the accelerations must
          be 0.7385 and 0.2110 m/s2
bouncing  49 balls of 10 kg fall from 5 m with restitution 1 and bounce for 20 s; energy must stay
666       balls of 10 kg, the corner 4 x 4 x 4 of the cube, collapse without friction; how deep they
          are in each other and in the ground. The whole cube is more free bodies than pinocchio
          has memory for
anymal    ANYmal stands under a PD controller (kp 40, kd 1) at 5 ms; CPU time of a step

PyBullet runs without damping and without its correction of penetration (erp = 0), as SimBenchmark
has it; MuJoCo with its elliptic cone, else as it comes. It has no restitution: `bouncing` takes an
undamped contact that lasts ten steps.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import mujoco
import mujoco_models
import numpy as np
import pybullet
import pybullet_utils.bullet_client as bullet_client
from free_bodies import Body, Engine, G, MuJoCo, Ours, PyBullet, Scene

import vi_contact as vc


def timed(engine: Engine, steps: int, each: Callable[[], None] = lambda: None) -> float:
    """Median time of a step [us]; `each` runs after every step and is not timed."""
    times = np.empty(steps)
    for k in range(steps):
        begin = time.perf_counter()
        engine.step()
        times[k] = time.perf_counter() - begin
        each()
    return 1e6 * float(np.median(times))


# ------------------------------------------------------------------------------ rolling
def rolling() -> Iterator[str]:
    push, h, duration = 150.0, 0.001, 2.0
    # friction takes 0.4 (10 + 25) g; a ball that rolls on the box follows with 2/7 of its motion
    box_oracle = (push - 0.4 * 35.0 * G) / (10.0 + 25.0 * 2.0 / 7.0)
    oracle = np.array([box_oracle, *[2.0 / 7.0 * box_oracle] * 25])
    bodies = [Body((20.0, 20.0, 1.0), 10.0, (0.0, 0.0, 0.5), friction=0.4)]
    bodies += [
        Body((0.5,), 1.0, (2.0 * (k % 5) - 4.0, 2.0 * (k // 5) - 4.0, 1.5), friction=0.8)
        for k in range(25)
    ]
    # a pair has the larger friction in MuJoCo, the product in PyBullet
    product = [replace(bodies[0], friction=0.8), *(replace(b, friction=1.0) for b in bodies[1:])]
    engines = (
        Ours(Scene(tuple(bodies), h, ground_friction=0.4)),
        MuJoCo(Scene(tuple(bodies), h, ground_friction=0.4)),
        PyBullet(Scene(tuple(product), h, ground_friction=0.5)),
    )
    yield f"{'engine':>12} {'box [m/s2]':>11} {'ball [m/s2]':>12} {'error [m/s]':>12} {'us':>8}"
    direction = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)
    for engine in engines:
        now = worst = 0.0

        def look(engine: Engine = engine) -> None:
            nonlocal now, worst
            now += h
            speed = engine.velocities() @ direction
            worst = max(worst, float(np.abs(speed - oracle * now).max()))
            engine.force(0, push * direction)

        engine.force(0, push * direction)
        step = timed(engine, round(duration / h), look)
        speed = engine.velocities() @ direction / duration
        line = f"{engine.name:>12} {speed[0]:11.6f} {speed[1:].mean():12.6f} {worst:12.1e}"
        yield f"{line} {step:8.1f}"


# ------------------------------------------------------------------------------ bouncing
def bouncing() -> Iterator[str]:
    mass, radius, height, duration = 10.0, 0.1, 5.0, 20.0
    places = [(2.0 * (k % 7), 2.0 * (k // 7), height) for k in range(49)]
    bodies = tuple(Body((radius,), mass, place) for place in places)
    yield f"{'h [s]':>8} {'engine':>12} {'energy error':>14} {'depth [m]':>11} {'step [us]':>10}"
    for h in (0.01, 0.001):
        scene = Scene(bodies, h, restitution=1.0, pairs=False)
        spring = (np.pi / (10.0 * h)) ** 2
        for engine in (Ours(scene), MuJoCo(scene, f"{-spring} 0", "RK4"), PyBullet(scene)):
            first = mass * G * height
            error = depth = 0.0

            def look(engine: Engine = engine, first: float = first) -> None:
                nonlocal error, depth
                z, speed = engine.positions()[:, 2], engine.velocities()
                if z.min() > 1.5 * radius:  # where all energy is kinetic and potential
                    energy = mass * (G * z + 0.5 * np.square(speed).sum(axis=1))
                    error = float(np.abs(energy / first - 1.0).max())
                depth = max(depth, radius - float(z.min()))

            step = timed(engine, round(duration / h), look)
            yield f"{h:8g} {engine.name:>12} {error:14.2e} {depth:11.1e} {step:10.1f}"


# ------------------------------------------------------------------------------ 666
def balls_666() -> Iterator[str]:
    rng = np.random.default_rng(42)
    radius, gap, low, n, h = 0.1, 0.21, 0.101, 4, 0.005
    bodies = []
    for k in range(n**3):
        place = gap * np.array([k % n, k // n % n, k // n**2])
        place[:2] += rng.uniform(-0.001, 0.001, 2)
        bodies.append(Body((radius,), 10.0, (*place[:2], place[2] + low)))
    scene = Scene(tuple(bodies), h)
    yield f"{'engine':>12} {'in each other [m]':>18} {'in the ground [m]':>18} {'us':>8}"
    for engine in (Ours(scene), MuJoCo(scene), PyBullet(scene)):
        pairs = ground = 0.0

        def look(engine: Engine = engine) -> None:
            nonlocal pairs, ground
            p = engine.positions()
            apart = np.linalg.norm(p[:, None] - p[None], axis=2) + 9.0 * np.eye(len(p))
            pairs = max(pairs, 2.0 * radius - float(apart.min()))
            ground = max(ground, radius - float(p[:, 2].min()))

        step = timed(engine, round(2.0 / h), look)
        yield f"{engine.name:>12} {pairs:18.1e} {ground:18.1e} {step:8.1f}"


# ------------------------------------------------------------------------------ ANYmal
def anymal() -> Iterator[str]:
    h, kp, kd, duration = 0.005, 40.0, 1.0, 10.0
    file = mujoco_models.example("anymal_b_simple_description/robots/anymal.urdf")
    robot = vc.load_robot(file, base="free")
    q = robot.neutral()
    for joint in robot.joints[1:]:
        front, right = joint.name[1] == "F", joint.name[0] == "R"
        angles = {"HAA": -0.03 if right else 0.03, "HFE": 0.4, "KFE": -0.8}
        angle = angles[joint.name[-3:]]
        q[joint.idx_q] = angle if front or joint.name.endswith("HAA") else -angle
    q = robot.on_ground(q)
    target, steps = q[7:], round(duration / h)
    yield f"{'engine':>12} {'us':>6} {'height [m]':>11} {'creep [m/s]':>12} {'depth [m]':>10}"

    sim = vc.Simulator(robot, h)
    sim.reset(q)
    total = 0.0
    for _ in range(steps):
        state = sim.state
        tau = kp * (target - state.q[7:]) - kd * state.v[6:]
        begin = time.perf_counter()
        sim.step(tau)
        total += time.perf_counter() - begin
    middle = sim.state.q[:2].copy()
    last = sim.run(5.0, lambda s: kp * (target - s.q[7:]) - kd * s.v[6:])
    creep = np.linalg.norm(last.q[-1, :2] - middle) / 5.0
    deep = -min(float(last.contacts[name].gap.min()) for name in last.contacts)
    height = last.q[-1, 2]
    yield f"{'vi_contact':>12} {1e6 * total / steps:6.1f} {height:11.3f} {creep:12.1e} {deep:10.1e}"

    model = mujoco_models.load(robot, h, contacts=True)
    model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    data = mujoco.MjData(model)
    data.qpos[:] = mujoco_models.to_qpos(robot, q)
    total, deep = 0.0, 0.0
    for k in range(2 * steps):
        data.ctrl[:] = kp * (target - data.qpos[7:]) - kd * data.qvel[6:]
        begin = time.perf_counter()
        mujoco.mj_step(model, data)
        total += time.perf_counter() - begin
        if k == steps:
            middle = data.qpos[:2].copy()
        if k > steps:
            deep = max([deep, *(-contact.dist for contact in data.contact)])
    creep = np.linalg.norm(data.qpos[:2] - middle) / duration
    height = data.qpos[2]
    yield f"{'MuJoCo':>12} {5e5 * total / steps:6.1f} {height:11.3f} {creep:12.1e} {deep:10.1e}"

    client = bullet_client.BulletClient(pybullet.DIRECT)
    client.setGravity(0, 0, -G)
    client.setTimeStep(h)
    plane = client.createMultiBody(0, client.createCollisionShape(pybullet.GEOM_PLANE))
    client.changeDynamics(plane, -1, lateralFriction=1.0)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "anymal.urdf")
        root = next(parent for parent in file.parents if parent.name == "example-robot-data")
        copy.write_text(file.read_text().replace("package://example-robot-data", str(root)))
        body = client.loadURDF(str(copy), q[:3], flags=pybullet.URDF_USE_INERTIA_FROM_FILE)
    at = {client.getJointInfo(body, k)[1].decode(): k for k in range(client.getNumJoints(body))}
    order = [at[joint.name] for joint in robot.joints[1:]]
    for k in range(-1, client.getNumJoints(body)):
        client.changeDynamics(
            body, k, lateralFriction=0.8, linearDamping=0.0, angularDamping=0.0, jointDamping=0.0
        )
    p, quat = client.getBasePositionAndOrientation(body)
    client.resetBasePositionAndOrientation(body, (*p[:2], q[2]), quat)
    for k, angle in zip(order, target, strict=True):
        client.resetJointState(body, k, angle)
        client.setJointMotorControl2(body, k, pybullet.VELOCITY_CONTROL, force=0.0)
    total = deep = 0.0
    for k in range(2 * steps):
        states = client.getJointStates(body, order)
        tau = [kp * (t - s[0]) - kd * s[1] for t, s in zip(target, states, strict=True)]
        client.setJointMotorControlArray(body, order, pybullet.TORQUE_CONTROL, forces=tau)
        begin = time.perf_counter()
        client.stepSimulation()
        total += time.perf_counter() - begin
        if k == steps:
            middle = np.array(client.getBasePositionAndOrientation(body)[0])
        if k > steps:
            deep = max([deep, *(-c[8] for c in client.getContactPoints(body, plane))])
    end = np.array(client.getBasePositionAndOrientation(body)[0])
    creep = np.linalg.norm((end - middle)[:2]) / duration
    yield f"{'PyBullet':>12} {5e5 * total / steps:6.1f} {end[2]:11.3f} {creep:12.1e} {deep:10.1e}"


TASKS = {"rolling": rolling, "bouncing": bouncing, "666": balls_666, "anymal": anymal}


def main(arguments: list[str]) -> int:
    names = list(TASKS) if arguments == ["all"] else arguments
    if not names or any(name not in TASKS for name in names):
        print(__doc__)
        return 2
    for name in names:
        print(f"\n{name}")
        for line in TASKS[name]():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
