"""Tests of this project's views."""
