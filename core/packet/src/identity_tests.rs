//! Tests of identity.
