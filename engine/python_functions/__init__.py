"""Functions in Python that users create: what they are, how their text is checked, and how they are called over Arrow columns."""
