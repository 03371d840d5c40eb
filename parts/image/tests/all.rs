//! Images are made and booted: see each module.

mod boots;
mod refused;
