"""`headway dev`: a reloader that watches files, and a child process that runs the app."""
