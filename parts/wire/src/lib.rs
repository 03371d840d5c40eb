//! A wire: carries frames between two ports, with what core/impair decides for each.
