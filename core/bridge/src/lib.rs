//! Switching decisions of an Ethernet switch: pure, bytes and `now` as arguments.
