//! Tests of the engine, with fixed seeds.
