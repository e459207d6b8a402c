"""A made-up fleet that looks like real ones, with planted ghost capacity and the true answer beside it."""
