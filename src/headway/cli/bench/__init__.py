"""`headway bench`: how fast Headway is on somebody's own database, in a place of its own there."""
