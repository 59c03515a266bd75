"""The commands, one module each. `headway.cli.command` lists them."""
