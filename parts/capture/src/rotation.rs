//! Rotation: when a new file begins, its name, and which file is removed for it.
//!
//! Names follow the ring-buffer files of other programs: `FILE_00001_20261121160515.pcapng`, with the
//! number from 1 and the time (UTC) at which the file began. A series has one writer: see [`check_free`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When files end. The default is a single file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Before a file exceeds this many bytes. A file whose first chunk is longer exceeds it.
    pub bytes: Option<u64>,
    /// After every such period from the start, even if no frames come.
    pub time: Option<Duration>,
    /// Keep this many files, the newest; the oldest is removed before the next is created.
    pub files: Option<usize>,
}

impl Rotation {
    /// Whether there may be more than one file.
    pub fn is_any(&self) -> bool {
        self.bytes.is_some() || self.time.is_some()
    }

    /// The number of periods since the start.
    pub(crate) fn epoch(&self, since_start: Duration) -> u64 {
        let Some(time) = self.time.filter(|time| !time.is_zero()) else { return 0 };
        u64::try_from(since_start.as_nanos() / time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time until the next period, from this time after the start.
    pub(crate) fn until_next(&self, since_start: Duration) -> Option<Duration> {
        let time = self.time.filter(|time| !time.is_zero())?;
        let next = u128::from(self.epoch(since_start) + 1) * time.as_nanos();
        let left = next.saturating_sub(since_start.as_nanos());
        Some(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

/// The name of the `number`-th file, begun at `time_ns` (Unix).
pub(crate) fn name(base: &Path, number: u64, time_ns: u64) -> PathBuf {
    let mut name = OsString::from(base.file_stem().unwrap_or_default());
    name.push(format!("_{number:05}_{}", stamp(time_ns)));
    if let Some(extension) = base.extension() {
        name.push(".");
        name.push(extension);
    }
    base.with_file_name(name)
}

/// Checks that no other process writes files of these names.
///
/// # Errors
/// [`netloom_disk::Error::Busy`] with the file that another process writes.
pub(crate) fn check_free(base: &Path) -> netloom_disk::Result<()> {
    let folder = base.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
    // An unreadable directory is reported when a file is created there.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_name(base, Path::new(&entry.file_name())) {
            netloom_disk::check_free(&base.with_file_name(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Whether a file has a name of the series.
fn is_name(base: &Path, file: &Path) -> bool {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().as_encoded_bytes().to_vec();
    let (base_stem, file_stem) = (stem(base), stem(file));
    let Some(rest) = file_stem.strip_prefix(base_stem.as_slice()) else { return false };
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let mut parts = rest.split(|byte| *byte == b'_');
    file.extension() == base.extension()
        && parts.next().is_some_and(<[u8]>::is_empty)
        && parts.next().is_some_and(|number| number.len() >= 5 && digits(number))
        && parts.next().is_some_and(|time| time.len() == 14 && digits(time))
        && parts.next().is_none()
}

/// `YYYYmmddHHMMSS` in UTC.
fn stamp(time_ns: u64) -> String {
    let [year, month, day, hour, minute, second] = parts(time_ns);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// `YYYY-mm-ddTHH:MM:SSZ`, human-readable.
pub(crate) fn text(time_ns: u64) -> String {
    let [year, month, day, hour, minute, second] = parts(time_ns);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month, day, hour, minute and second in UTC.
fn parts(time_ns: u64) -> [u64; 6] {
    let seconds = time_ns / 1_000_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let of_day = seconds % 86_400;
    [year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60]
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar (Howard Hinnant,
/// "chrono-compatible low-level date algorithms", `civil_from_days`).
fn date(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01: years begin in March, so that the leap day is the last of its year.
    let days = days + 719_468;
    // The calendar repeats every 400 years, of 146097 days.
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_number_and_time() {
        let time = 1_795_277_115 * 1_000_000_000 + 999_999_999;
        let named = |base: &str, number| name(Path::new(base), number, time);
        assert_eq!(named("/a/b.pcapng", 1), Path::new("/a/b_00001_20261121160515.pcapng"));
        assert_eq!(named("b", 123_456), Path::new("b_123456_20261121160515"));
        assert_eq!(named("a.b/c.d.pcap", 2), Path::new("a.b/c.d_00002_20261121160515.pcap"));
    }

    #[test]
    fn names_of_a_row_are_known_again() {
        for base in ["b.pcapng", "b", "/a/c.d.pcap", "b_1"] {
            let base = Path::new(base);
            assert!(is_name(base, &name(base, 123_456, 0)), "{base:?}");
            assert!(!is_name(base, base), "{base:?}");
        }
        let base = Path::new("b.pcapng");
        for other in
            ["b_00001_20261121160515.pcap", "b_1_2.pcapng", "bc_00001_20261121160515.pcapng"]
        {
            assert!(!is_name(base, Path::new(other)), "{other}");
        }
        assert!(!is_name(base, Path::new("b_00001_20261121160515_1.pcapng")));
    }

    #[test]
    fn dates_are_right_at_the_edges_of_years() {
        assert_eq!(stamp(0), "19700101000000");
        for (seconds, text) in [
            (951_782_399_u64, "20000228235959"),
            (951_782_400, "20000229000000"),
            (1_709_251_200, "20240301000000"),
            (4_107_542_400, "21000301000000"),
            (1_767_225_599, "20251231235959"),
        ] {
            assert_eq!(stamp(seconds * 1_000_000_000), text);
        }
    }

    #[test]
    fn times_are_counted_from_the_start() {
        let rotation = Rotation { time: Some(Duration::from_secs(10)), ..Rotation::default() };
        let at = Duration::from_millis;
        assert_eq!([0, 9999, 10_000, 35_000].map(|ms| rotation.epoch(at(ms))), [0, 0, 1, 3]);
        assert_eq!(rotation.until_next(at(0)), Some(at(10_000)));
        assert_eq!(rotation.until_next(at(19_990)), Some(at(10)));
        assert_eq!(Rotation::default().until_next(at(5)), None);
        let none = Rotation { time: Some(Duration::ZERO), ..Rotation::default() };
        assert_eq!((none.epoch(at(5)), none.until_next(at(5))), (0, None));
    }
}
