"""What int8 costs in accuracy, beside other tools, on trained networks and on random weights."""
