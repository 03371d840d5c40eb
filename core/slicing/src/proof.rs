//! The proof that what a slice's rule does to packets stays within the slice.
