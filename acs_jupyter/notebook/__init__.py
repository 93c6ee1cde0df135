"""The kernel's side of a notebook: magics, display, forms, and the place where all of it is joined."""
