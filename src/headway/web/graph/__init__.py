"""Draws the graph of a sequence as SVG. Only the page of a sequence uses it."""
