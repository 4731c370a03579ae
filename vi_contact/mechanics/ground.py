"""The ground: a plane that nothing passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vi_contact.errors import GroundError
from vi_contact.robot.maximal import is_number
from vi_contact.robot.parts import Array, read_only, setting


@setting("ground")
@dataclass(frozen=True)
class Ground:
    r"""The half space below a plane is solid: :math:`n^\top p < d`.

    n is the normal scaled to length one, d the height; so (0, 0, 2) with a height of 1 is the plane
    z = 1.
    """

    friction: float = 0.8
    """Coulomb's coefficient, for contacts that do not give their own."""
    restitution: float = 0.0
    """Speed after an impact per speed before it, along the normal, from 0 to 1."""
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """Points out of the ground, world axes; of any length, which does not count."""
    height: float = 0.0
    """Distance of the plane from the origin, along the unit normal [m]."""

    def __post_init__(self) -> None:
        for name, low, high in (("friction", 0.0, np.inf), ("restitution", 0.0, 1.0)):
            value = getattr(self, name)
            if not (is_number(value) and low <= value <= high):
                limits = "at least 0" if high == np.inf else "from 0 to 1"
                raise GroundError(f"the ground's {name} is {value!r}; it must be {limits}")
        try:
            normal = np.asarray(self.normal, dtype=np.float64)
        except (TypeError, ValueError):
            normal = np.zeros(0)
        length = np.linalg.norm(normal) if normal.shape == (3,) else 0.0
        if not (np.isfinite(length) and length > 0.0):
            raise GroundError(f"the ground's normal is {self.normal}; three numbers, not all zero")
        object.__setattr__(self, "normal", tuple(normal.tolist()))  # as a list it could change
        if not is_number(self.height):
            raise GroundError(f"the ground's height is {self.height!r}; it must be a finite number")

    @property
    def unit_normal(self) -> Array:
        """(3,) of length one."""
        normal = np.asarray(self.normal, dtype=np.float64)
        return read_only(normal / np.linalg.norm(normal))

    @property
    def numbers(self) -> Array:
        """(5,): unit normal, height, restitution."""
        return read_only(np.concatenate([self.unit_normal, [self.height, self.restitution]]))
