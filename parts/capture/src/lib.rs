//! Capture: frames of interfaces and switches to standard files, each accounted for.

#![forbid(unsafe_code)]
