//! Numbers without order that are the same in every run, and programs made of them.

use netloom_digest::splitmix::SplitMix64;
use netloom_filter::Insn;

/// A generator.
pub(crate) struct Noise(SplitMix64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Noise(SplitMix64::new(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    fn number(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(usize::try_from(end).unwrap())).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        *self.0.one_of(of)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.0.bytes(len)
    }

    /// A constant: small, or one at which arithmetic and signs turn.
    fn constant(&mut self) -> u32 {
        let turn = [0, 1, 0xff, 0x800, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, u32::MAX];
        if self.below(2) == 0 { self.number(64) } else { self.one(&turn) }
    }

    /// A program of `len` instructions with every operation; scratch memory 0 to 3 is written first.
    pub(crate) fn program(&mut self, len: usize) -> Vec<Insn> {
        let mut out: Vec<Insn> = (0..4).map(|slot| Insn::new(0x02, 0, 0, slot)).collect();
        out.push(Insn::new(0x28, 0, 0, 12));
        while out.len() < len - 1 {
            let left = len - 2 - out.len();
            out.push(self.insn(left.min(6)));
        }
        let last = self.below(4);
        out.push(if last == 0 { Insn::new(0x06, 0, 0, 96) } else { Insn::new(0x16, 0, 0, 0) });
        out
    }

    /// An instruction with at least `left` more, and the last, behind it.
    fn insn(&mut self, left: usize) -> Insn {
        let skip = |noise: &mut Noise| u8::try_from(noise.below(left + 1)).unwrap();
        match self.below(20) {
            0..=3 => Insn::new(self.one(&[0x20, 0x28, 0x30]), 0, 0, self.number(40)),
            4..=5 => {
                let near = [0, 1, 2, 5, 8, 12, 14, 16, 20, 0xffff_fffe];
                Insn::new(self.one(&[0x40, 0x48, 0x50]), 0, 0, self.one(&near))
            }
            6 => Insn::new(self.one(&[0x80, 0x81]), 0, 0, 0),
            7 => Insn::new(self.one(&[0x00, 0x01]), 0, 0, self.constant()),
            8 => Insn::new(0xb1, 0, 0, self.one(&[14, 15, 12, 18])),
            9..=10 => Insn::new(self.one(&[0x60, 0x61, 0x02, 0x03]), 0, 0, self.number(4)),
            11 => Insn::new(self.one(&[0x07, 0x87, 0x84]), 0, 0, 0),
            12..=14 => {
                let op = self.one(&[0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4]);
                let (x, k) = (self.one(&[0, 0x08]), self.constant());
                let k = match op {
                    0x64 | 0x74 => k % 32,
                    0x34 | 0x94 => k.max(1),
                    _ => k,
                };
                Insn::new(op | x, 0, 0, k)
            }
            15 if left > 0 => Insn::new(0x05, 0, 0, self.number(3).min(u32::from(skip(self)))),
            16 if self.below(4) == 0 => Insn::new(0x06, 0, 0, self.constant()),
            _ => {
                let op = self.one(&[0x15, 0x25, 0x35, 0x45]) | self.one(&[0, 0, 0x08]);
                Insn::new(op, skip(self), skip(self), self.constant())
            }
        }
    }
}
