//! Which start of the machine this is: boot time begins again with each.

use std::sync::OnceLock;

/// Has a random number in hexadecimal digits for each start of the machine (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A number that differs between starts; 0 where it is not known.
pub(crate) fn number() -> u32 {
    static NUMBER: OnceLock<u32> = OnceLock::new();
    *NUMBER.get_or_init(|| first_digits(&std::fs::read_to_string(BOOT_ID).unwrap_or_default()))
}

fn first_digits(id: &str) -> u32 {
    id.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_has_the_first_digits_of_its_id() {
        assert_eq!(first_digits("1f3c88aa-0a58-4c0b-9c1d-3b5a8a2f5a10\n"), 0x1f3c_88aa);
        assert_eq!((first_digits(""), first_digits("no number")), (0, 0));
        assert_ne!(number(), 0);
    }
}
