"""Tables of results, for a terminal and for papers."""
