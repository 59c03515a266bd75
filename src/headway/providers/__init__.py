"""One module for each driver, named as its package: runs a store's statements on a connection of
the user's. Stores find them by name; user code imports them to wrap them."""
