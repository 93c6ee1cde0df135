"""What lasts: records in a notebook's metadata, what a killed kernel leaves, and when copies are drawn."""
