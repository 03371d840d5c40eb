//! The registers of a rule: bytes of which some are not known.

/// 64 bytes, in four registers of 16 or sixteen of 4, as rules name them.
pub(super) struct Registers([Option<u8>; 64]);

impl Default for Registers {
    fn default() -> Self {
        Registers([None; 64])
    }
}

impl Registers {
    fn start(register: u32) -> Option<usize> {
        match register {
            // NFT_REG_1 to 4, and NFT_REG32_00 to 15, which are the same bytes.
            1..=4 => Some((register as usize - 1) * 16),
            8..=23 => Some((register as usize - 8) * 4),
            _ => None,
        }
    }

    pub(super) fn byte(&self, register: u32, at: usize) -> Option<u8> {
        self.0.get(Self::start(register)? + at).copied().flatten()
    }

    pub(super) fn get(&self, register: u32, length: usize) -> Option<Vec<u8>> {
        (0..length).map(|at| self.byte(register, at)).collect()
    }

    pub(super) fn put(&mut self, register: u32, bytes: impl IntoIterator<Item = Option<u8>>) {
        let Some(start) = Self::start(register) else { return };
        let mut end = start;
        for byte in bytes {
            if let Some(place) = self.0.get_mut(end) {
                *place = byte;
            }
            end += 1;
        }
        // The kernel fills the last word of a shorter value with zeros.
        while end % 4 != 0 {
            self.0.get_mut(end).into_iter().for_each(|place| *place = Some(0));
            end += 1;
        }
    }

    pub(super) fn forget(&mut self, register: u32, length: usize) {
        self.put(register, std::iter::repeat_n(None, length));
    }
}
