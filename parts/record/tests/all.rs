//! Tests of recordings on disk.

mod clock;
mod folder;
mod kill;
mod made;
mod race;
