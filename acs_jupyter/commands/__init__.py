"""The commands of ``acs-jupyter``: one file a group, each a function that adds its arguments and names what runs."""
