"""A part of a plan in the formats that the sources themselves write."""
