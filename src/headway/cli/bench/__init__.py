"""`headway bench`: measures Headway on a user's database, in a schema or file of its own."""
