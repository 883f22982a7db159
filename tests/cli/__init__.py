"""The command line, run in this process or as a shell does."""
