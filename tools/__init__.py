"""What is made of the code for those who read it: the reference, the picture of the rooms, measures."""
