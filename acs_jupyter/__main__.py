"""``python -m acs_jupyter`` is the ``acs-jupyter`` command."""

from .cli import main

raise SystemExit(main())
