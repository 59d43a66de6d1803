"""The service's database: tables, migrations, queries and the one way to write, for SQLite and PostgreSQL."""
