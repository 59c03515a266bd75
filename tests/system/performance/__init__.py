"""What a job costs, in counts that do not depend on the machine."""
