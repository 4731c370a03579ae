"""Scenes of free spheres and boxes on a plane, the same for vi_contact, MuJoCo and PyBullet.

An engine has `step()`, `positions()` and `velocities()` (n, 3) of the centres [m, m/s], and
`force(body, vector)` for a force at the centre of one body in the next step [N]. Every engine
recomputes contacts and forces anew in each step; nothing is tuned unless the task says so.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import mujoco
import numpy as np
import pybullet
import pybullet_utils.bullet_client as bullet_client

import vi_contact as vc

G = 9.81
Array = np.ndarray


@dataclass(frozen=True)
class Body:
    """A homogeneous sphere (one size, its radius) or box (three sizes, its edges)."""

    size: tuple[float, ...]
    mass: float
    position: tuple[float, float, float]
    friction: float = 0.0

    @property
    def inertia(self) -> Array:
        """(3,) principal moments [kg m2]."""
        if len(self.size) == 1:
            return np.full(3, 0.4 * self.mass * self.size[0] ** 2)
        squares = np.square(self.size)
        return self.mass * (squares.sum() - squares) / 12.0


@dataclass(frozen=True)
class Scene:
    """Bodies above the plane z = 0."""

    bodies: tuple[Body, ...]
    time_step: float
    restitution: float = 0.0
    ground_friction: float = 0.0
    pairs: bool = field(default=True)
    """Whether the bodies meet each other."""


class Engine(Protocol):
    """What a task asks of an engine."""

    name: str

    def step(self) -> None: ...
    def force(self, body: int, vector: Array) -> None: ...
    def positions(self) -> Array: ...
    def velocities(self) -> Array: ...


# ------------------------------------------------------------------------------ vi_contact
def urdf(scene: Scene) -> str:
    """One robot: every body on a floating joint from the world."""
    parts = ['<robot name="scene"><link name="world"/>']
    for k, body in enumerate(scene.bodies):
        ixx, iyy, izz = body.inertia
        shape = (
            f'<sphere radius="{body.size[0]}"/>'
            if len(body.size) == 1
            else f'<box size="{" ".join(map(str, body.size))}"/>'
        )
        parts.append(
            f'<link name="body_{k}"><inertial><mass value="{body.mass}"/><inertia ixx="{ixx}" '
            f'iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>'
            f"<collision><geometry>{shape}</geometry></collision>"
            f'<contact><lateral_friction value="{body.friction}"/></contact></link>'
            f'<joint name="joint_{k}" type="floating"><parent link="world"/>'
            f'<child link="body_{k}"/></joint>'
        )
    return "".join([*parts, "</robot>"])


class Ours:
    """vi_contact."""

    name = "vi_contact"

    def __init__(self, scene: Scene) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "scene.urdf")
            file.write_text(urdf(scene))
            robot = vc.load_robot(file)
            robot.contacts  # noqa: B018 - reads the shapes while the file exists
        self.count = len(scene.bodies)
        ground = vc.Ground(friction=scene.ground_friction, restitution=scene.restitution)
        self.sim = vc.Simulator(robot, scene.time_step, ground=ground)
        q = robot.neutral().reshape(self.count, 7)
        q[:, :3] = [body.position for body in scene.bodies]
        self.sim.reset(q.ravel())
        self.wrenches: dict[str, Array] = {}

    def step(self) -> None:
        self.sim.step(wrenches=self.wrenches or None)
        self.wrenches = {}

    def force(self, body: int, vector: Array) -> None:
        self.wrenches[f"body_{body}"] = np.concatenate([vector, np.zeros(3)])

    def positions(self) -> Array:
        return self.sim.state.q.reshape(self.count, 7)[:, :3]

    def velocities(self) -> Array:
        return self.sim.state.v_WB


# ------------------------------------------------------------------------------ MuJoCo
class MuJoCo:
    """MuJoCo with its elliptic cone and Newton solver; contact parameters as they come."""

    name = "MuJoCo"

    def __init__(self, scene: Scene, solref: str = "0.02 1", integrator: str = "Euler") -> None:
        parts = [
            f'<mujoco><option timestep="{scene.time_step}" gravity="0 0 {-G}" cone="elliptic" '
            f'integrator="{integrator}"/><size memory="500M"/><worldbody>'
            f'<geom type="plane" size="0 0 1" friction="{scene.ground_friction} 0 0" '
            f'solref="{solref}" priority="0"/>'
        ]
        for body in scene.bodies:
            shape = "sphere" if len(body.size) == 1 else "box"
            half = body.size[0] if len(body.size) == 1 else " ".join(str(s / 2) for s in body.size)
            kinds = "" if scene.pairs else 'contype="0" conaffinity="1"'
            parts.append(
                f'<body pos="{" ".join(map(str, body.position))}"><freejoint/>'
                f'<geom type="{shape}" size="{half}" mass="{body.mass}" condim="3" '
                f'friction="{body.friction} 0 0" solref="{solref}" {kinds}/></body>'
            )
        self.model = mujoco.MjModel.from_xml_string("".join([*parts, "</worldbody></mujoco>"]))
        self.data = mujoco.MjData(self.model)
        self.count = len(scene.bodies)

    def step(self) -> None:
        mujoco.mj_step(self.model, self.data)
        self.data.xfrc_applied[:] = 0.0

    def force(self, body: int, vector: Array) -> None:
        self.data.xfrc_applied[1 + body, :3] = vector

    def positions(self) -> Array:
        return self.data.qpos.reshape(self.count, 7)[:, :3]

    def velocities(self) -> Array:
        return self.data.qvel.reshape(self.count, 6)[:, :3]


# ------------------------------------------------------------------------------ PyBullet
class PyBullet:
    """PyBullet; damping and the correction of penetration that it adds by default are off."""

    name = "PyBullet"

    def __init__(self, scene: Scene, erp: float = 0.0) -> None:
        self.client = client = bullet_client.BulletClient(pybullet.DIRECT)
        client.setGravity(0, 0, -G)
        client.setTimeStep(scene.time_step)
        client.setPhysicsEngineParameter(
            erp=erp, contactERP=erp, frictionERP=erp, numSolverIterations=200,
            restitutionVelocityThreshold=0.0, numSubSteps=0,
        )  # fmt: skip
        plane = client.createMultiBody(0, client.createCollisionShape(pybullet.GEOM_PLANE))
        client.changeDynamics(
            plane, -1, lateralFriction=scene.ground_friction, restitution=scene.restitution
        )
        self.ids = []
        for body in scene.bodies:
            if len(body.size) == 1:
                shape = client.createCollisionShape(pybullet.GEOM_SPHERE, radius=body.size[0])
            else:
                half = [s / 2 for s in body.size]
                shape = client.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half)
            index = client.createMultiBody(body.mass, shape, basePosition=body.position)
            client.changeDynamics(
                index, -1, lateralFriction=body.friction, restitution=scene.restitution,
                linearDamping=0.0, angularDamping=0.0, rollingFriction=0.0, spinningFriction=0.0,
            )  # fmt: skip
            if not scene.pairs:
                client.setCollisionFilterGroupMask(index, -1, 1, 2)  # meets static bodies only
            self.ids.append(index)

    def step(self) -> None:
        self.client.stepSimulation()

    def force(self, body: int, vector: Array) -> None:
        at = self.client.getBasePositionAndOrientation(self.ids[body])[0]
        self.client.applyExternalForce(self.ids[body], -1, vector, at, pybullet.WORLD_FRAME)

    def positions(self) -> Array:
        return np.array([self.client.getBasePositionAndOrientation(i)[0] for i in self.ids])

    def velocities(self) -> Array:
        return np.array([self.client.getBaseVelocity(i)[0] for i in self.ids])
