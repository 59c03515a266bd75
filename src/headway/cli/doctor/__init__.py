"""What `headway doctor` looks at."""
