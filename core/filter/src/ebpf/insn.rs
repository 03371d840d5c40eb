//! An instruction of eBPF as the kernel takes it (`struct bpf_insn`; RFC 9669).

/// One instruction, or half of a double one (a 64-bit constant).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Insn(u64);

impl Insn {
    /// An instruction from its fields.
    pub const fn new(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Self {
        // Both are bit fields of one byte in the kernel's structure, which each byte order lays out
        // in its own way.
        let registers =
            if cfg!(target_endian = "little") { src << 4 | dst } else { dst << 4 | src };
        let off = off.to_ne_bytes();
        let imm = imm.to_ne_bytes();
        Insn(u64::from_ne_bytes([code, registers, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]))
    }

    /// An instruction from its bytes in memory.
    pub const fn from_raw(raw: u64) -> Self {
        Insn(raw)
    }

    /// The eight bytes in memory; `BPF_PROG_LOAD` takes an array of them.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Operation.
    pub const fn code(self) -> u8 {
        self.0.to_ne_bytes()[0]
    }

    /// The register written or compared.
    pub const fn dst(self) -> u8 {
        let registers = self.0.to_ne_bytes()[1];
        if cfg!(target_endian = "little") { registers & 0x0f } else { registers >> 4 }
    }

    /// The register read.
    pub const fn src(self) -> u8 {
        let registers = self.0.to_ne_bytes()[1];
        if cfg!(target_endian = "little") { registers >> 4 } else { registers & 0x0f }
    }

    /// Offset, in bytes of memory or in instructions of a jump.
    pub const fn off(self) -> i16 {
        let bytes = self.0.to_ne_bytes();
        i16::from_ne_bytes([bytes[2], bytes[3]])
    }

    /// Constant.
    pub const fn imm(self) -> i32 {
        let bytes = self.0.to_ne_bytes();
        i32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
    }

    /// The same with another offset.
    pub(super) const fn with_off(self, off: i16) -> Self {
        Insn::new(self.code(), self.dst(), self.src(), off, self.imm())
    }
}

impl std::fmt::Debug for Insn {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (code, dst, src) = (self.code(), self.dst(), self.src());
        write!(out, "{code:#04x} r{dst} r{src} off {} imm {:#x}", self.off(), self.imm())
    }
}
