"""Looms of other programs: each format a module of its own, all through one plain tree."""
