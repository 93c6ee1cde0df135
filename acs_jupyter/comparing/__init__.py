"""Lanes side by side: one prompt under several models or settings."""
