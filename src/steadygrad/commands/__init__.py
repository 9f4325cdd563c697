"""The subcommands of `steadygrad`, one small module each.

    add(subparsers)   adds the subcommand's parser, and names `run` in it: parser.set_defaults(run=run)
    run(args) -> int  does it, and returns the exit code

What takes long to import is imported within `run`, so that `steadygrad --help` is quick. A new subcommand is a module
here and its name in `steadygrad.cli.COMMANDS`.
"""
