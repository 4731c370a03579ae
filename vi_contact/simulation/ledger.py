"""Where the energy of a robot comes from and goes to, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from vi_contact.robot.parts import Array


@dataclass(frozen=True)
class Ledger:
    """Work of every step [J], each (N,): their sum is the change of energy.

    The forces' works are torque times joint increment and so on. `integration` is what the scheme
    itself adds or takes: the kinetic energy that the impulses of the step give at the velocities of
    its two nodes, less the works and the change of potential. It falls with the third power of the
    time step.

    `defect` compares impulses with energies: it checks the balance of momentum. It does not check
    the single works: an error in one of them would stand in `integration`, with the other sign, and
    show as an entry that does not vanish with the time step.
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
