"""The commands of `steadygrad`. `add_NAME(parser)` gives the command NAME its help, its options and what runs it.

What takes long to import is imported when a command runs, so that help is quick. A new command is an entry in
`steadygrad.cli.COMMANDS`, which says where its `add_NAME` is.
"""
