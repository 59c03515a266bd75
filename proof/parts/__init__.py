"""The parts of the proof, one module each, with a function `prove`."""
