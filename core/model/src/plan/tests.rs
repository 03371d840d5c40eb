//! Tests of the whole plan: decisions and refusals (`decisions`), properties of every lab
//! (`property`), changes while it runs (`change`, `linking`), labs of known shapes (`shapes`), and packets
//! that walk through it (`simulator`).

pub(crate) mod build_lab;
mod change;
mod decisions;
mod form;
mod linking;
mod part;
pub(crate) mod property;
mod shapes;
pub(crate) mod simulator;
