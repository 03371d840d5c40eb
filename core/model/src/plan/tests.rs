//! Tests of the whole plan: decisions and refusals (`decisions`), properties of every lab
//! (`property`), changes while it runs (`change`, `linking`), labs of known shapes (`shapes`), and packets
//! that walk through it (`simulator`).

mod build_lab;
mod change;
mod decisions;
mod form;
mod linking;
mod property;
mod shapes;
mod simulator;
