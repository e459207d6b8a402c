"""Small worlds with the arithmetic worked by hand, all landed into one build."""
