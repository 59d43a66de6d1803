"""The HTTP interface, version 1: one table of operations, from which routes and the OpenAPI document are made."""
