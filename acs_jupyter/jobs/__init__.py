"""Completion jobs from the client's side: what is sent and heard, written down, held, watched and shown."""
