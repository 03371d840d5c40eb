//! Tests of the whole plan: what is decided and refused (`decisions`), what holds for every lab
//! (`property`), changes while it runs (`change`, `linking`), labs of known shapes (`shapes`), by packets that walk through it (`simulator`).

mod build_lab;
mod change;
mod decisions;
mod form;
mod linking;
mod property;
mod shapes;
mod simulator;
