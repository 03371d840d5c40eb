//! Images are taken, unpacked and kept: see each module.
