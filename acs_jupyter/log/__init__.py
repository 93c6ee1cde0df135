"""The log of a session, what can happen in it, and the tree it folds into."""
