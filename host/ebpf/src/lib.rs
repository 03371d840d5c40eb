//! BPF programs of the kernel's network: built, loaded, attached, read.
