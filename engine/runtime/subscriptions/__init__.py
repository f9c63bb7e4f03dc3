"""Subscriptions: who follows the changes of a table or view, from where on, and up to where it has them."""
