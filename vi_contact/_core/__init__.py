"""The equations of :mod:`vi_contact.mechanics`, compiled: arrays in, arrays out.

The C++ sources stand in this folder; the build makes the extension module ``_compiled`` of them.
Arguments are trusted here: they were checked at the public boundary.
"""

from vi_contact._core._compiled import (
    Model,
    Stepper,
    joint_constraint,
    make_model,
    quaternion_product,
    quaternion_step,
    quaternion_step_tangent,
    rollout,
    rotate,
)

__all__ = [
    "Model",
    "Stepper",
    "joint_constraint",
    "make_model",
    "quaternion_product",
    "quaternion_step",
    "quaternion_step_tangent",
    "rollout",
    "rotate",
]
