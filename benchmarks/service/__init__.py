"""What the benchmark service bears: load (``load``) and being killed (``kills``). Each is a command of its own."""
