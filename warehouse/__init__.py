"""Where data lives, how it is landed, opened, built and published."""
