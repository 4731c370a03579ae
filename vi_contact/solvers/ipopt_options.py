"""Options of the IPOPT solver; reading them needs no IPOPT."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vi_contact.errors import OptionError
from vi_contact.robot.parts import setting


@setting("options")
@dataclass(frozen=True)
class IpoptOptions:
    """Tolerances of a step solved by IPOPT.

    They are numbers without unit: lengths are measured by the motion of a step, but at least g h^2,
    impulses by the momentum of the whole robot at that speed.
    """

    tolerance: float = 1e-9
    """Of all equations, and of the products of impulses and gaps; 1e-12 m at rest, h = 0.01 s."""
    regularisation: float = 1e-6
    """Weight of the squared forces of joints and contacts in the objective, the Tikhonov term: of
    forces that the motion does not tell apart the smallest are taken."""
    smoothing: float = 0.0
    """Of the norm in the friction cone, which then is wider by this part; the paper's epsilon."""
    max_iterations: int = 200
    """Of one start of IPOPT; steps need 5 to 30."""
    max_halvings: int = 5
    """A step that has no solution is taken in halves, those in halves again, up to so often."""

    def __post_init__(self) -> None:
        for name in ("tolerance", "regularisation", "smoothing"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 <= value < 1.0):
                raise OptionError(f"{name} is {value}; it must be from 0 to 1")
        if self.tolerance < 1e-14:
            raise OptionError(f"tolerance is {self.tolerance}; numbers end at 1e-14")
        if self.max_iterations < 1:
            raise OptionError(f"max_iterations is {self.max_iterations}; it must be at least 1")
        if not 0 <= self.max_halvings <= 10:
            raise OptionError(f"max_halvings is {self.max_halvings}; it must be from 0 to 10")
