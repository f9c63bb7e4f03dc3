"""A random program against control plane and storage engine, crashed at random object-store calls, checked against batch runs."""
