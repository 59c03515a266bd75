"""What `headway dev` is made of: a parent that watches files, and a child that runs jobs."""
