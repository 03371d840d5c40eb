//! Images are fetched, taken, unpacked and kept: see each module.

mod faults;
mod folder;
mod hostile;
mod layers;
mod local;
mod removing;
mod support;
