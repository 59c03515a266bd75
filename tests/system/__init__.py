"""Tests of the whole: crashes, races and costs that no single package is responsible for."""
