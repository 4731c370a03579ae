"""The same robots for MuJoCo: MJCF built from a vi_contact Robot, and states to and fro.

A MuJoCo body has the frame of the pinocchio joint that carries it, so angles, travels and body
axes agree. What differs: quaternions are w x y z, linear velocities of a free base are in world
axes, and joints come in depth-first order.

    python benchmarks/mujoco_models.py          checks the models against pinocchio
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

import vi_contact as vc
from vi_contact.robot.parts import WORLD, Joint, JointKind, Loop

Array = NDArray[np.float64]

TINY = 1e-12
"""Least mass [kg] and moments of inertia [kg m2] in MJCF: MuJoCo asks for more than 1e-15."""
NO_ROTATION = np.array([0.0, 0.0, 0.0, 1.0])
"""Quaternion x y z w."""
BLOWN_UP = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
)
GROUND_FRICTION = 0.8
"""Of contacts that declare none."""


# ------------------------------------------------------------------------------------ model
def to_mjcf(
    robot: vc.Robot,
    time_step: float,
    integrator: str = "Euler",
    contacts: bool = False,
    limits: bool = False,
    friction: bool = False,
    loop_solref: tuple[float, float] | None = None,
) -> str:
    """MJCF of a robot: bodies, joints, loops, mimic joints, springs, and a motor per input.

    integrator: "Euler", "implicitfast", "implicit" or "RK4".
    contacts: its contact spheres and a plane; without them there is no geometry at all.
    limits, friction: joint limits and Coulomb friction of the joints.
    loop_solref: time constant [s] and damping ratio of loops and mimic joints; MuJoCo's 0.02, 1 if
    not given.

    Effort limits act; the electrics of motors do not. MuJoCo does not accept bodies without mass or
    inertia (they get 1e-12), nor inertia tensors that violate the triangle inequality (if there are
    such, balanceinertia is set, which averages them, and a comment names them); `load` puts the
    robot's own values back.
    """
    root = ElementTree.Element("mujoco", model=robot.name)
    compiler = _add(root, "compiler", angle="radian", inertiafromgeom="false", autolimits="true")
    gravity = robot.model.gravity.linear
    _add(
        root, "option", timestep=time_step, integrator=integrator, gravity=gravity, cone="elliptic"
    )
    odd = [body.name for body in robot.bodies if _is_odd(body.inertia)]
    if odd:
        compiler.set("balanceinertia", "true")
        root.insert(
            0,
            ElementTree.Comment(
                f" inertia tensors that are averaged if A + B < C: {', '.join(odd)} "
            ),
        )

    bodies = {WORLD: _add(root, "worldbody")}
    for i in _depth_first(robot):
        bodies[i] = _add_body(bodies[robot.joints[i].parent], robot, i, limits, friction)
    if contacts:
        _add_contacts(bodies, robot)
    tendons, equalities, actuators = (
        ElementTree.Element(tag) for tag in ("tendon", "equality", "actuator")
    )
    for spring in robot.springs:
        _add_site(bodies, robot, spring.body_1, spring.p_1, f"{spring.name}_1")
        _add_site(bodies, robot, spring.body_2, spring.p_2, f"{spring.name}_2")
        tendon = _add(
            tendons, "spatial", name=spring.name, stiffness=spring.stiffness,
            springlength=spring.rest_length, damping=spring.damping,
        )  # fmt: skip
        _add(tendon, "site", site=f"{spring.name}_1")
        _add(tendon, "site", site=f"{spring.name}_2")
    solref = {} if loop_solref is None else {"solref": loop_solref}
    for loop in robot.loops:
        _add_loop(equalities, bodies, robot, loop, solref)
    for mimic in robot.mimics:
        names = robot.joint_names
        _add(
            equalities, "joint", joint1=names[mimic.joint], joint2=names[mimic.source],
            polycoef=[mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0], **solref,
        )  # fmt: skip
    for joint in robot.joints:
        _add_motors(actuators, joint)
    root.extend(part for part in (tendons, equalities, actuators) if len(part))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def load(robot: vc.Robot, time_step: float, **options: Any) -> mujoco.MjModel:
    """The compiled model of `to_mjcf`, with the robot's own masses and inertias throughout."""
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot, time_step, **options))
    changed = False
    for i, body in enumerate(robot.bodies):
        moments, quat = _principal(body.inertia)
        compiled = model.body(_body_name(robot, i))
        values, own = [*compiled.mass, *compiled.inertia], [body.mass, *moments]
        if not np.allclose(values, own, rtol=1e-12, atol=0.0):  # more than rounding
            compiled.mass[:], compiled.inertia[:], compiled.iquat[:] = body.mass, moments, quat
            changed = True
    if changed:
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def _add_body(
    parent: ElementTree.Element, robot: vc.Robot, i: int, limits: bool, friction: bool
) -> ElementTree.Element:
    body, joint = robot.bodies[i], robot.joints[i]
    placement = robot.model.jointPlacements[i + 1]
    element = _add(
        parent, "body", name=_body_name(robot, i), pos=placement.translation,
        quat=_wxyz(pin.Quaternion(placement.rotation).coeffs()),
    )  # fmt: skip
    moments, quat = _principal(body.inertia)
    _add(
        element, "inertial", mass=max(body.mass, TINY), pos=body.com, quat=quat,
        diaginertia=np.maximum(moments, TINY),
    )  # fmt: skip
    for name, kind, axis, dof in _joints(robot, i):
        if kind == "free":
            _add(element, "freejoint", name=name)
            continue
        spread = joint.nv if kind == "ball" else 1  # a ball has one number for its three
        values = {
            attribute: _uniform(joint, attribute, slice(dof, dof + spread))
            for attribute in ("armature", "damping", "friction")
        }
        loss = values.pop("friction")
        extra: dict[str, object] = {"frictionloss": loss} if friction else {}
        if kind != "ball":
            extra["axis"] = axis
            if limits and np.isfinite([joint.lower[dof], joint.upper[dof]]).all():
                extra["range"] = [joint.lower[dof], joint.upper[dof]]
        _add(element, "joint", name=name, type=kind, **values, **extra)
    return element


def _joints(robot: vc.Robot, i: int) -> Iterator[tuple[str, str, Array, int]]:
    """MuJoCo's joints for one of ours: name, type, axis, first degree of freedom."""
    joint = robot.joints[i]
    x, y, z = np.eye(3)
    if joint.kind is JointKind.REVOLUTE:
        yield joint.name, "hinge", joint.axis, 0
    elif joint.kind is JointKind.PRISMATIC:
        yield joint.name, "slide", joint.axis, 0
    elif joint.kind is JointKind.SPHERICAL:
        yield joint.name, "ball", z, 0
    elif joint.kind is JointKind.PLANAR:
        yield f"{joint.name}_x", "slide", x, 0
        yield f"{joint.name}_y", "slide", y, 1
        yield f"{joint.name}_turn", "hinge", z, 2
    elif _is_free(robot, i):
        yield joint.name, "free", z, 0
    elif joint.kind is JointKind.FLOATING:  # MuJoCo's free joint stands in the world only
        for dof, (axis, letter) in enumerate(zip((x, y, z), "xyz", strict=True)):
            yield f"{joint.name}_{letter}", "slide", axis, dof
        yield f"{joint.name}_turn", "ball", z, 3
    else:
        raise ValueError(f"joint '{joint.name}' is {joint.kind.name}: MuJoCo has no such joint")


def _add_loop(
    equalities: ElementTree.Element,
    bodies: dict[int, ElementTree.Element],
    robot: vc.Robot,
    loop: Loop,
    solref: dict[str, tuple[float, float]],
) -> None:
    """Sites that must coincide; they hold whatever the configuration the model is compiled in.

    A hinge is two connected points on its axis: six rows, one of them redundant.
    """
    points = {JointKind.SPHERICAL: [0.0], JointKind.FIXED: [0.0], JointKind.REVOLUTE: [-0.05, 0.05]}
    if loop.kind not in points:
        raise ValueError(f"loop '{loop.name}' is {loop.kind.name}: MuJoCo has no such constraint")
    for k, offset in enumerate(points[loop.kind]):
        names = [f"{loop.name}_{k}_1", f"{loop.name}_{k}_2"]
        sides = [(loop.parent, loop.frame_parent), (loop.child, loop.frame_child)]
        for name, (body, frame) in zip(names, sides, strict=True):
            R_BF = pin.Quaternion(frame.quat_xyzw).toRotationMatrix()
            p_BF = frame.p + R_BF @ (offset * loop.axis)
            _add_site(bodies, robot, body, p_BF, name, frame.quat_xyzw)
        tag = "weld" if loop.kind is JointKind.FIXED else "connect"
        _add(equalities, tag, site1=names[0], site2=names[1], **solref)


def _add_motors(actuators: ElementTree.Element, joint: Joint) -> None:
    """One motor per input, in the order of our inputs."""
    if not joint.actuated:
        return
    if joint.kind in (JointKind.PLANAR, JointKind.FLOATING):
        raise ValueError(f"joint '{joint.name}' is {joint.kind.name}: MuJoCo cannot drive it")
    for dof in range(joint.nv):
        effort = joint.effort[dof]
        extra: dict[str, object] = {"forcerange": [-effort, effort]} if np.isfinite(effort) else {}
        if joint.kind is JointKind.SPHERICAL:
            extra["gear"] = np.concatenate([np.eye(3)[dof], np.zeros(3)])
        name = joint.name if joint.nv == 1 else f"{joint.name}_{'xyz'[dof]}"
        _add(actuators, "motor", name=name, joint=joint.name, **extra)


def _add_contacts(bodies: dict[int, ElementTree.Element], robot: vc.Robot) -> None:
    """Spheres that meet the plane only; MuJoCo takes the larger friction of a pair."""
    _add(
        bodies[WORLD], "geom", name="ground", type="plane", size=[0.0, 0.0, 1.0],
        friction=[0.0, 0.0, 0.0], contype=0, conaffinity=1,
    )  # fmt: skip
    for contact in robot.contacts:
        friction = GROUND_FRICTION if contact.friction is None else contact.friction
        _add(
            bodies[contact.body], "geom", name=f"contact_{contact.name}", type="sphere",
            size=max(contact.radius, 1e-4), pos=robot.bodies[contact.body].com + contact.p_BC,
            friction=[friction, 0.0, 0.0], condim=3, contype=1, conaffinity=0,
        )  # fmt: skip


def _add_site(
    bodies: dict[int, ElementTree.Element],
    robot: vc.Robot,
    body: int,
    p_BF: Array,
    name: str,
    quat_xyzw: Array = NO_ROTATION,
) -> None:
    com = robot.bodies[body].com if body != WORLD else np.zeros(3)
    _add(bodies[body], "site", name=name, pos=com + p_BF, quat=_wxyz(quat_xyzw))


def _add(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    """A child element; numbers are written so that reading gives the same double."""
    element = ElementTree.SubElement(parent, tag)
    for name, value in attributes.items():
        if isinstance(value, str):
            element.set(name, value)
        else:
            element.set(name, " ".join(f"{x:.17g}" for x in np.atleast_1d(value)))
    return element


def _uniform(joint: Joint, attribute: str, dofs: slice) -> float:
    values = getattr(joint, attribute)[dofs]
    if np.ptp(values) > 0.0:
        raise ValueError(f"{attribute} of joint '{joint.name}' must be the same about all axes")
    return float(values[0])


def _principal(inertia: Array) -> tuple[Array, Array]:
    """Principal moments (3,) and the quaternion w x y z of their axes, right-handed."""
    moments, axes = np.linalg.eigh(inertia)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return moments, _wxyz(pin.Quaternion(axes).coeffs())


def _is_odd(inertia: Array) -> bool:
    """A tensor that MuJoCo may refuse or average, for no rigid body has A + B < C.

    Flat bodies have A + B = C, where rounding decides.
    """
    A, B, C = np.maximum(np.linalg.eigvalsh(inertia), TINY)
    return bool(A + B < C * (1.0 + 1e-9))


def _is_free(robot: vc.Robot, i: int) -> bool:
    joint = robot.joints[i]
    here = robot.model.jointPlacements[i + 1].isIdentity(0.0)
    return joint.kind is JointKind.FLOATING and joint.parent == WORLD and here


def _body_name(robot: vc.Robot, i: int) -> str:
    return f"{i}_{robot.bodies[i].name}"


def _depth_first(robot: vc.Robot) -> list[int]:
    """Joints in MuJoCo's order."""
    children: dict[int, list[int]] = {i: [] for i in range(-1, len(robot.joints))}
    for i, joint in enumerate(robot.joints):
        children[joint.parent].append(i)
    order, stack = [], children[WORLD][::-1]
    while stack:
        order.append(stack.pop())
        stack += children[order[-1]][::-1]
    return order


def _wxyz(quat_xyzw: Array) -> Array:
    return np.asarray(quat_xyzw)[[3, 0, 1, 2]]


def _xyzw(quat_wxyz: Array) -> Array:
    return np.asarray(quat_wxyz)[[1, 2, 3, 0]]


# ------------------------------------------------------------------------------------ state
def _spans(robot: vc.Robot) -> Iterator[tuple[Joint, slice, slice, slice, slice]]:
    """Every joint with its place in q, v, qpos and qvel."""
    place_q = place_v = 0
    for i in _depth_first(robot):
        joint = robot.joints[i]
        size_q = {JointKind.FLOATING: 7, JointKind.SPHERICAL: 4, JointKind.PLANAR: 3}.get(
            joint.kind, joint.nv
        )
        yield (
            joint,
            slice(joint.idx_q, joint.idx_q + joint.nq),
            slice(joint.idx_v, joint.idx_v + joint.nv),
            slice(place_q, place_q + size_q),
            slice(place_v, place_v + joint.nv),
        )
        place_q += size_q
        place_v += joint.nv


def to_qpos(robot: vc.Robot, q: Array) -> Array:
    """MuJoCo's qpos of a configuration q (nq,)."""
    parts = [np.zeros(0)]
    for joint, at_q, _, _, _ in _spans(robot):
        x = q[at_q]
        if joint.kind is JointKind.FLOATING:
            x = np.concatenate([x[:3], _wxyz(x[3:])])
        elif joint.kind is JointKind.SPHERICAL:
            x = _wxyz(x)
        elif joint.kind is JointKind.PLANAR:
            x = np.array([x[0], x[1], np.arctan2(x[3], x[2])])
        elif joint.continuous:
            x = np.array([np.arctan2(x[1], x[0])])
        parts.append(x)
    return np.concatenate(parts)


def from_qpos(robot: vc.Robot, qpos: Array) -> Array:
    """Configuration q (nq,) of MuJoCo's qpos."""
    q = np.zeros(robot.nq)
    for joint, at_q, _, at_qpos, _ in _spans(robot):
        x = qpos[at_qpos]
        if joint.kind is JointKind.FLOATING:
            x = np.concatenate([x[:3], _xyzw(x[3:])])
        elif joint.kind is JointKind.SPHERICAL:
            x = _xyzw(x)
        elif joint.kind is JointKind.PLANAR:
            x = np.array([x[0], x[1], np.cos(x[2]), np.sin(x[2])])
        elif joint.continuous:
            x = np.array([np.cos(x[0]), np.sin(x[0])])
        q[at_q] = x
    return q


def velocity_map(robot: vc.Robot, q: Array) -> Array:
    """T (nv, nv) of qvel = T v: linear velocities of free and planar joints turn to fixed axes."""
    T = np.zeros((robot.nv, robot.nv))
    for joint, at_q, at_v, _, at_qvel in _spans(robot):
        block = np.eye(joint.nv)
        if joint.kind is JointKind.FLOATING:
            block[:3, :3] = pin.Quaternion(q[at_q][3:]).toRotationMatrix()
        elif joint.kind is JointKind.PLANAR:
            cosine, sine = q[at_q][2:]
            block[:2, :2] = [[cosine, -sine], [sine, cosine]]
        T[at_qvel, at_v] = block
    return T


def to_qvel(robot: vc.Robot, q: Array, v: Array) -> Array:
    """MuJoCo's qvel of a velocity v (nv,) at the configuration q."""
    return velocity_map(robot, q) @ v


def from_qvel(robot: vc.Robot, q: Array, qvel: Array) -> Array:
    """Velocity v (nv,) of MuJoCo's qvel at the configuration q."""
    return velocity_map(robot, q).T @ qvel


def to_qacc(robot: vc.Robot, q: Array, v: Array, a: Array) -> Array:
    """MuJoCo's qacc of pinocchio's acceleration a (nv,): T a + T' v."""
    turning = np.zeros(robot.nv)
    for joint, _, at_v, _, _ in _spans(robot):
        w = v[at_v]
        if joint.kind is JointKind.FLOATING:
            turning[at_v.start : at_v.start + 3] = np.cross(w[3:], w[:3])
        elif joint.kind is JointKind.PLANAR:
            turning[at_v.start : at_v.start + 2] = [-w[2] * w[1], w[2] * w[0]]
    return velocity_map(robot, q) @ (a + turning)


# ------------------------------------------------------------------------- chains and timing
def chain_urdf(links: int, hanging: bool = True) -> str:
    """URDF of a serial chain, hanging from the world or free; axes alternate between y and x.

    Links are rods of 0.2 m, 20 mm radius and 0.5 kg; joints have no limits, damping or friction.
    """
    length, radius, mass = 0.2, 0.02, 0.5
    across = mass * (3.0 * radius**2 + length**2) / 12.0
    along = mass * radius**2 / 2.0
    parts = [f'<robot name="chain_{links}">']
    if hanging:
        parts.append('  <link name="world"/>')
    for i in range(links):
        parent, z = ("world", 0.0) if i == 0 else (f"link_{i - 1}", -length)
        axis = "0 1 0" if i % 2 == 0 else "1 0 0"
        parts.append(f"""\
  <link name="link_{i}">
    <inertial>
      <origin xyz="0 0 {-length / 2}"/>
      <mass value="{mass}"/>
      <inertia ixx="{across}" iyy="{across}" izz="{along}" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>""")
        if i == 0 and not hanging:
            continue
        parts.append(f"""\
  <joint name="joint_{i}" type="revolute">
    <parent link="{parent}"/>
    <child link="link_{i}"/>
    <origin xyz="0 0 {z}"/>
    <axis xyz="{axis}"/>
    <limit lower="-1e6" upper="1e6" effort="0" velocity="0"/>
  </joint>""")
    return "\n".join([*parts, "</robot>", ""])


def load_chain(links: int, hanging: bool = True) -> vc.Robot:
    """The robot of `chain_urdf`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"chain_{links}.urdf"
        path.write_text(chain_urdf(links, hanging))
        return vc.load_robot(path)


def example(name: str) -> Path:
    """A URDF of example-robot-data by its file name."""
    folder = metadata.distribution("example-robot-data").locate_file(
        "cmeel.prefix/share/example-robot-data/robots"
    )
    return next(Path(str(folder)).rglob(name))


def mujoco_steps_per_second(
    model: mujoco.MjModel, qpos: Array, qvel: Array, steps: int, episode: int | None = None
) -> float:
    """Speed of MuJoCo's own loop from a state, nothing recorded.

    episode: steps after which it starts from the state again, untimed; all of them if not given.
    Raises RuntimeError if the motion blew up, for MuJoCo then resets itself and goes on.
    """
    data = mujoco.MjData(model)

    def run(count: int) -> float:
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = qpos, qvel
        begin = time.perf_counter()
        mujoco.mj_step(model, data, nstep=count)
        seconds = time.perf_counter() - begin
        if any(data.warning[kind].number for kind in BLOWN_UP):
            raise RuntimeError(
                f"MuJoCo's motion blew up within {count} steps: take a smaller time step or a "
                "shorter episode"
            )
        return seconds

    length = min(episode or steps, steps)
    run(min(length, 100))  # warms up
    episodes = max(1, round(steps / length))
    return episodes * length / sum(run(length) for _ in range(episodes))


# ------------------------------------------------------------------------------------ check
def check(robot: vc.Robot, samples: int = 20) -> dict[str, float]:
    """Largest differences between MuJoCo and pinocchio at random states.

    mass [kg] of the moving bodies; body frames and CoMs [m], joint-space inertia, and acceleration
    of the tree without loops and springs, the latter two relative to their largest entry; states
    converted to and fro. pinocchio's crba is wrong, silently, for joints not in depth-first order;
    those of a URDF are.
    """
    rng = np.random.default_rng(0)
    tree = vc.Robot(robot.name, robot.model, robot.bodies, robot.joints)
    loaded, model = load(robot, 0.01), load(tree, 0.01)
    data, pin_data = mujoco.MjData(model), robot.model.createData()
    ids = [model.body(_body_name(robot, i)).id for i in range(len(robot.bodies))]
    joints = robot.joints
    damping = np.concatenate([joint.damping for joint in joints])
    own_mass = sum(body.mass for body in robot.bodies)
    worst = dict.fromkeys(("mass", "frames", "inertia", "acceleration", "conversion"), 0.0)
    worst["mass"] = abs(loaded.body_subtreemass[0] - own_mass)

    def note(what: str, difference: Array, scale: float = 1.0) -> None:
        worst[what] = max(worst[what], float(np.abs(difference).max()) / scale)

    for _ in range(samples):
        q = pin.integrate(robot.model, pin.neutral(robot.model), rng.normal(size=robot.nv))
        v, tau = rng.normal(size=(2, robot.nv))
        tau[robot.base_dofs] = 0.0
        data.qpos[:], data.qvel[:] = to_qpos(robot, q), to_qvel(robot, q, v)
        T = velocity_map(robot, q)
        data.qfrc_applied[:] = T @ tau
        mujoco.mj_forward(model, data)

        maximal = robot.to_maximal(q)
        note("frames", data.xipos[ids] - maximal.p_WB)
        for i, body in enumerate(ids):
            note("frames", data.xmat[body].reshape(3, 3) - robot.data.oMi[i + 1].rotation)

        M = pin.crba(robot.model, pin_data, q)
        M = np.triu(M) + np.triu(M, 1).T
        M_mujoco = np.zeros((robot.nv, robot.nv))
        mujoco.mj_fullM(model, data, M_mujoco)
        note("inertia", T.T @ M_mujoco @ T - M, np.abs(M).max())

        a = pin.aba(robot.model, pin_data, q, v, tau - damping * v)
        note("acceleration", data.qacc - to_qacc(robot, q, v, a), np.abs(a).max())

        note("conversion", to_qpos(robot, from_qpos(robot, data.qpos)) - data.qpos)
        note("conversion", from_qvel(robot, q, data.qvel) - v)
    return worst


def loop_rest(robot: vc.Robot) -> float:
    """Largest loop error MuJoCo sees in the robot's neutral, closed configuration [m or rad]."""
    model = load(robot, 0.01)
    data = mujoco.MjData(model)
    data.qpos[:] = to_qpos(robot, robot.neutral())
    mujoco.mj_forward(model, data)
    return float(np.abs(data.efc_pos[: data.ne]).max(initial=0.0))


def main() -> None:
    """Prints the differences to pinocchio; raises if one is too large."""
    tolerances = {
        "mass": 1e-9, "frames": 1e-9, "inertia": 1e-9, "acceleration": 1e-8, "conversion": 1e-12
    }  # fmt: skip
    robots = [
        vc.load_robot("fly_hopper"),
        vc.load_robot("fly_hopper", base="fixed"),
        vc.load_robot("fly_hopper_rail"),
        vc.load_robot(example("panda.urdf"), base="fixed", contacts="none"),
        vc.load_robot(example("go2.urdf"), contacts="none"),
        vc.load_robot(example("anymal.urdf"), contacts="none"),
        vc.load_robot(example("talos_reduced.urdf"), contacts="none"),
        vc.load_robot(example("talos_full_v2.urdf"), contacts="none"),
        load_chain(5),
        load_chain(80),
    ]
    print(f"MuJoCo {mujoco.__version__}, pinocchio {pin.__version__}")
    print(f"{'robot':>20}   nv" + "".join(f"{what:>13}" for what in tolerances) + "   loop error")
    for robot in robots:
        worst = check(robot)
        line = "".join(f"{worst[what]:13.1e}" for what in tolerances)
        odd = [body.name for body in robot.bodies if _is_odd(body.inertia)]
        note = f"  odd inertia: {', '.join(odd)}" if odd else ""
        print(f"{robot.name:>20} {robot.nv:4d}{line}{loop_rest(robot):13.1e}{note}")
        for what, tolerance in tolerances.items():
            if not worst[what] < tolerance:
                raise RuntimeError(f"{robot.name}: {what} differs by {worst[what]:.1e}")


if __name__ == "__main__":
    main()
