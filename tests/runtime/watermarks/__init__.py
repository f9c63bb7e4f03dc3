"""Views over tables with watermarks."""
