"""What a robot is: bodies, joints, loops, contacts, motors, springs, and how they are loaded."""
