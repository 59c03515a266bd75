"""The commands, one module each: what it takes, what it prints. `headway.cli.command` lists them."""
