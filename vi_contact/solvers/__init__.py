"""One step of time: the compiled Newton solver."""
