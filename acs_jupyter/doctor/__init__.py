"""What is wrong with this machine's set-up, told so that it can be mended or reported; nothing is changed."""
