"""The parts that SQLite and PostgreSQL share: operations as generators that yield statements.
For the two stores; other code imports `headway.stores.sqlite` or `headway.stores.postgres`."""
