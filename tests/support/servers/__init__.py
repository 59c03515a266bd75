"""Real servers on loopback, one module per product; stopped without fail."""
