//! Ports: descriptors that whole frames are read from and written to.
