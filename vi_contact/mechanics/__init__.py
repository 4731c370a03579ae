"""The equations, once, in CasADi."""
