//! Packet sockets: frames sent and received as they are on the wire.
