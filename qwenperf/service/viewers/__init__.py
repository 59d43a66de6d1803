"""XProf for who reads a run's page: processes that the service starts, and the way to them through it."""
