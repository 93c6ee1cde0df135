"""Windows on a session: live widgets, and the static view that outlives them."""
