"""What a network is made of, what it can do in integers, and what that costs."""
