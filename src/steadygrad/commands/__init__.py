"""The commands of `steadygrad`: `add_NAME(parser)` gives the command NAME its options, `run_NAME` is what runs it.

The docstring of `run_NAME` is the command's help. What takes long to import is imported when a command runs, so that help is
quick. A new command is an entry in `steadygrad.cli.COMMANDS`.
"""
