"""filter, prioritize, bind and preempt: the scheduler's four calls."""
