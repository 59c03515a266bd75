"""Bugs that are planted one at a time, to see that tests or simulation find them."""
