"""Tests of the command line, run in this process or as a real command."""
