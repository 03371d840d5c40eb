"""A stand-in for the package of the same name: it records a script's network, or runs the script on netloom."""

VERSION = "2.3.1"
