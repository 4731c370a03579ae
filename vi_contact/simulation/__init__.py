"""Simulations: the simulator, its states, trajectories and their energy ledger."""
