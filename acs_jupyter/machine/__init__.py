"""What this package needs of the machine: processes, forks, locked files, interrupts, private files."""
