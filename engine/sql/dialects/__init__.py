"""What the dialects mean by their functions and operators, said so that Spark does the same."""
