"""Where the energy of a robot comes from and goes to, step by step."""

from __future__ import annotations

from dataclasses import dataclass, fields

from vi_contact.robot.parts import Array, Record


@dataclass(frozen=True)
class Ledger(Record):
    """Work of every step [J], each (N,): their sum is the change of energy.

    The forces' works are torque times joint increment and so on. `integration` is what the scheme
    itself adds or takes, from momenta and velocities at the nodes and from the difference between
    the way that they make and the way that was gone. It falls with the third power of the time
    step.

    Every entry is computed on its own, so `defect` checks them all.
    """

    motor: Array
    """Of the joint torques."""
    external: Array
    """Of the external wrenches."""
    damping: Array
    """Of joint dampers and spring dampers; never positive."""
    friction: Array
    """Of friction in contacts and joints; not positive up to the integration error."""
    impact: Array
    """Of contacts and joint limits along their normals: what impacts take."""
    integration: Array
    """The scheme's own error."""
    change: Array
    """Of kinetic and potential energy, from the states at both ends."""

    def __repr__(self) -> str:
        works = {part.name: float(getattr(self, part.name).sum()) for part in fields(self)}
        told = ", ".join(f"{name} {work:.4g}" for name, work in works.items())
        return f"Ledger({len(self.change)} steps, in all [J]: {told})"

    @property
    def sum(self) -> Array:
        """(N,) of all entries."""
        return (
            self.motor
            + self.external
            + self.damping
            + self.friction
            + self.impact
            + self.integration
        )

    @property
    def defect(self) -> Array:
        """(N,) change of energy that no entry accounts for; round-off."""
        return self.change - self.sum
