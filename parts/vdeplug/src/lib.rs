//! Plug-in for libvdeplug.
