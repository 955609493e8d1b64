"""How a stack is touched: local, endpoint, manual."""
