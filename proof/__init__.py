"""The proof: what Headway promises, tried under crashes, freezes and cuts. `make prove` runs it."""
