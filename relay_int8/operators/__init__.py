"""What the compiler knows of each operator: one record, in one file, for one kind of group."""
