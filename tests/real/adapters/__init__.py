"""Short ways from systems that have no collector of their own to the landing shape."""
