"""Controllers: callables from a state to joint torques, installed as ``vi_contact.controllers``."""
