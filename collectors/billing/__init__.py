"""Bills of FOCUS, AWS, Azure, Google Cloud and Oracle: landed rows in FOCUS terms, one or more per line of the bill."""
