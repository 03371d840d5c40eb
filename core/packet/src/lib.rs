//! Frames: views of their headers, checksums, segmentation, and a hash that survives the way.
