"""What the SQL stores share: operations as generators that yield statements."""
