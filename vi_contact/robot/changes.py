"""What has changed in a pinocchio model since a robot was made of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio as pin

BY_VELOCITY = {
    "effort limits": ("lowerEffortLimit", "upperEffortLimit"),
    "velocity limits": ("lowerVelocityLimit", "upperVelocityLimit"),
    "damping": ("damping",),
    "friction": ("lowerDryFrictionLimit", "upperDryFrictionLimit"),
    "armature": ("armature", "rotorInertia", "rotorGearRatio"),
}
"""Numbers (nv,) of a model that act, in words."""

BY_CONFIGURATION = {"position limits": ("lowerPositionLimit", "upperPositionLimit")}
"""Numbers (nq,) of a model that act."""


def model_changes(now: pin.Model, loaded: pin.Model) -> list[str]:
    """Words for all that would move differently; frames and reference configurations would not."""
    if now == loaded:  # pinocchio's own comparison takes some microseconds
        return []
    if list(now.names) != list(loaded.names) or list(now.parents) != list(loaded.parents):
        return ["its joints"]
    found = []
    for what, values in (("inertia", "inertias"), ("placement", "jointPlacements")):
        pairs = zip(getattr(now, values), getattr(loaded, values), strict=True)
        changed = [i for i, (a, b) in enumerate(pairs) if not a == b]
        found += _words(what, changed, now)
    for groups, first, size in (
        (BY_CONFIGURATION, "idx_q", "nq"),
        (BY_VELOCITY, "idx_v", "nv"),
    ):
        for what, names in groups.items():
            different = np.any(
                [_differ(getattr(now, n), getattr(loaded, n)) for n in names], axis=0
            )
            joints = list(enumerate(now.joints))[1:]
            spans = {
                i: slice(getattr(j, first), getattr(j, first) + getattr(j, size)) for i, j in joints
            }
            found += _words(what, [i for i, span in spans.items() if different[span].any()], now)
    if now.gravity != loaded.gravity:
        found.append("gravity, which is vc.Simulator(robot, gravity=...)")
    return found


def _differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a != b) & ~(np.isnan(a) & np.isnan(b))


def _words(what: str, joints: Sequence[int], model: pin.Model) -> list[str]:
    if not joints:
        return []
    names = ", ".join(f"'{model.names[i]}'" for i in joints[:3])
    return [f"{what} of {names}{f' and {len(joints) - 3} more' if len(joints) > 3 else ''}"]
