//! libpcap where the machine has it.
