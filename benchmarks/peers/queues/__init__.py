"""One module per library; each names its classes in PEERS."""
