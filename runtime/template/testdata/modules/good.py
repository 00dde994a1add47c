"""A module that can be imported in advance."""

VALUE = 42
