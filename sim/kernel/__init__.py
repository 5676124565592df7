"""Virtual time: tasks, clocks, schedules and the one queue that decides what happens next."""
