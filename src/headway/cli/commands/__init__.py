"""The commands, one module each. `headway.cli.root` lists them."""
