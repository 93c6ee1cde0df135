"""The loom: a session's tree to read, grow, change, measure, keep in files and show."""
