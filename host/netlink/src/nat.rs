//! NAT.
