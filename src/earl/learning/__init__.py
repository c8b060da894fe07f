"""Learning: what every method is, and the parts that methods are made of."""
