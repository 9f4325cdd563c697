"""The commands of `steadygrad`, one small module each.

    DESCRIPTION, EXAMPLES   what `steadygrad COMMAND --help` says before and after the options
    add(parser)             adds the options
    run(args) -> int        does it, and returns the exit code

What takes long to import is imported within `run`, so that help is quick. A new command is a module here and its name in
`steadygrad.cli.COMMANDS`.
"""
