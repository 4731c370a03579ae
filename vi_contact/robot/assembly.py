"""From a pinocchio model to bodies and joints in maximal coordinates."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pinocchio as pin

from vi_contact.errors import UnsupportedJointError
from vi_contact.robot.parts import WORLD, Array, Body, Joint, JointKind, Pose
from vi_contact.robot.report import Finding, Outcome

_KINDS = {
    **{f"JointModelR{axis}": (JointKind.REVOLUTE, False) for axis in "XYZ"},
    **{f"JointModelRUB{axis}": (JointKind.REVOLUTE, True) for axis in "XYZ"},
    "JointModelRevoluteUnaligned": (JointKind.REVOLUTE, False),
    "JointModelRevoluteUnboundedUnaligned": (JointKind.REVOLUTE, True),
    **{f"JointModelP{axis}": (JointKind.PRISMATIC, False) for axis in "XYZ"},
    "JointModelPrismaticUnaligned": (JointKind.PRISMATIC, False),
    "JointModelFreeFlyer": (JointKind.FLOATING, False),
    "JointModelPlanar": (JointKind.PLANAR, False),
    "JointModelSpherical": (JointKind.SPHERICAL, False),
}

LARGE = 1e300
"""pinocchio writes the largest double where there is no limit."""


def bodies_of(model: pin.Model) -> tuple[Body, ...]:
    """One body per pinocchio joint, with the links that move with it."""
    links: list[list[str]] = [[] for _ in range(model.njoints)]
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY:
            links[frame.parentJoint].append(frame.name)
    bodies = []
    for i in range(1, model.njoints):
        inertia = model.inertias[i]
        com = inertia.lever.copy() if inertia.mass > 0.0 else np.zeros(3)
        names = tuple(links[i]) or (model.names[i],)
        bodies.append(Body(names[0], names, inertia.mass, com, inertia.inertia.copy()))
    return tuple(bodies)


def joints_of(
    model: pin.Model, bodies: tuple[Body, ...], actuated: Collection[str]
) -> tuple[Joint, ...]:
    """The tree's joints with frames in body coordinates; limits of 1e300 and more become inf."""
    joints = []
    for i in range(1, model.njoints):
        joint_model = model.joints[i]
        short = joint_model.shortname()
        if short not in _KINDS:
            raise UnsupportedJointError(
                f"joint '{model.names[i]}' is a {short}; vi_contact has "
                f"{', '.join(sorted(name.removeprefix('JointModel') for name in _KINDS))}"
            )
        kind, continuous = _KINDS[short]
        parent = model.parents[i] - 1
        com_parent = bodies[parent].com if parent != WORLD else np.zeros(3)
        placement = model.jointPlacements[i]
        frame_parent = Pose.from_se3(
            pin.SE3(placement.rotation, placement.translation - com_parent)
        )
        frame_child = Pose(-bodies[i - 1].com, np.array([0.0, 0.0, 0.0, 1.0]))
        axis = np.array([0.0, 0.0, 1.0])
        if kind is JointKind.REVOLUTE:
            axis = motion_subspace(model, i)[3:, 0].copy()
        elif kind is JointKind.PRISMATIC:
            axis = motion_subspace(model, i)[:3, 0].copy()
        span_q = slice(joint_model.idx_q, joint_model.idx_q + joint_model.nq)
        span_v = slice(joint_model.idx_v, joint_model.idx_v + joint_model.nv)
        lower, upper = np.full(joint_model.nv, -np.inf), np.full(joint_model.nv, np.inf)
        if joint_model.nq == 1:
            lower = _limits(model.lowerPositionLimit[span_q])
            upper = _limits(model.upperPositionLimit[span_q])
        joints.append(
            Joint(
                name=model.names[i],
                kind=kind,
                parent=parent,
                child=i - 1,
                frame_parent=frame_parent,
                frame_child=frame_child,
                axis=axis,
                axis2=np.zeros(3),
                idx_q=joint_model.idx_q,
                nq=joint_model.nq,
                idx_v=joint_model.idx_v,
                nv=joint_model.nv,
                lower=lower,
                upper=upper,
                effort=_limits(model.upperEffortLimit[span_v]),
                velocity=_limits(model.upperVelocityLimit[span_v]),
                damping=model.damping[span_v].copy(),
                friction=model.upperDryFrictionLimit[span_v].copy(),
                armature=model.armature[span_v].copy(),
                continuous=continuous,
                actuated=model.names[i] in actuated,
            )
        )
    return tuple(joints)


def motion_subspace(model: pin.Model, i: int) -> Array:
    """(6, nv) of joint i, linear rows first; pinocchio gives one column as a vector."""
    return np.asarray(model.joints[i].createData().S).reshape(6, -1)


def limit_findings(model: pin.Model) -> list[Finding]:
    """Position limits that do not act: those of joints that move along several axes."""
    free = {"JointModelFreeFlyer": 3, "JointModelPlanar": 2}
    findings = []
    for name, joint in list(zip(model.names, model.joints, strict=True))[1:]:
        span = slice(joint.idx_q, joint.idx_q + free.get(joint.shortname(), 0))
        bounds = np.r_[model.lowerPositionLimit[span], model.upperPositionLimit[span]]
        if (np.abs(bounds) <= LARGE).any():
            message = "position limits act on joints with one coordinate only"
            findings.append(Finding(Outcome.IGNORED, f"joint '{name}'", message, physics=True))
    return findings


def _limits(values: Array) -> Array:
    return np.where(np.abs(values) > LARGE, np.copysign(np.inf, values), values)


def with_spherical_joints(model: pin.Model, names: Collection[str]) -> pin.Model:
    """The same model with the floating joints of these names replaced by spherical ones."""
    result = pin.Model()
    result.name = model.name
    result.inertias[0] = model.inertias[0]
    for i in range(1, model.njoints):
        old = model.joints[i]
        spherical = model.names[i] in names
        joint_model = pin.JointModelSpherical() if spherical else old.extract()
        index = result.addJoint(
            model.parents[i], joint_model, model.jointPlacements[i], model.names[i]
        )
        result.inertias[index] = model.inertias[i]
        if spherical:  # a ball carries no limits: those of the floating joint do not apply
            continue
        new = result.joints[index]
        for attribute in ("lowerPositionLimit", "upperPositionLimit"):
            values = getattr(result, attribute)
            values[new.idx_q : new.idx_q + new.nq] = getattr(model, attribute)[
                old.idx_q : old.idx_q + old.nq
            ]
        for attribute in (
            "lowerEffortLimit", "upperEffortLimit", "lowerVelocityLimit", "upperVelocityLimit",
            "damping", "lowerDryFrictionLimit", "upperDryFrictionLimit", "armature",
            "rotorInertia", "rotorGearRatio",
        ):  # fmt: skip
            values = getattr(result, attribute)
            values[new.idx_v : new.idx_v + new.nv] = getattr(model, attribute)[
                old.idx_v : old.idx_v + old.nv
            ]
    for frame in list(model.frames)[1:]:
        result.addFrame(
            pin.Frame(
                frame.name,
                frame.parentJoint,
                frame.parentFrame,
                frame.placement,
                frame.type,
                frame.inertia,
            ),
            False,
        )
    return result
